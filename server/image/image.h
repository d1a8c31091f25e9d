// An 8-bit RGB picture in memory, and the interface through which decoders hand over its rows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/status/statusor.h"

namespace lion {

// Width and height in pixels.
struct ImageSize {
  int64_t width = 0;
  int64_t height = 0;

  bool operator==(const ImageSize&) const = default;
};

// Pixels [height, width, 3], R G B interleaved, no gap between rows. Owns them; movable.
class RgbImage {
 public:
  RgbImage() = default;

  // A black picture. RESOURCE_EXHAUSTED when the memory cannot be had; both sides must be positive. Untouched pixels
  // cost no physical memory.
  static absl::StatusOr<RgbImage> Create(ImageSize size);

  int64_t width() const { return size_.width; }
  int64_t height() const { return size_.height; }
  ImageSize size() const { return size_; }
  int64_t row_bytes() const { return size_.width * 3; }
  int64_t bytes() const { return row_bytes() * size_.height; }

  // kReadSlack bytes past the last pixel may be read, so that vector code needs no special case for the end.
  static constexpr int64_t kReadSlack = 64;
  const uint8_t* pixels() const { return pixels_.get(); }
  uint8_t* pixels() { return pixels_.get(); }
  const uint8_t* row(int64_t y) const { return pixels_.get() + y * row_bytes(); }
  uint8_t* row(int64_t y) { return pixels_.get() + y * row_bytes(); }

  // Keeps the top left part. `size` must not exceed the picture. The memory is not given back.
  void CropInPlace(ImageSize size);

 private:
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  ImageSize size_;
  std::unique_ptr<uint8_t[], Free> pixels_;
};

// Takes the rows of a picture as stored in its file, in order. Decoders call it from inside C libraries that unwind
// with longjmp, so implementations must not throw.
class RowSink {
 public:
  virtual ~RowSink() = default;

  // Where stored row y [width, 3] is to be written; valid until Done(y). Called with y = 0, 1, ..., height - 1.
  virtual uint8_t* Row(int64_t y) = 0;

  // Row y is complete.
  virtual void Done(int64_t y) = 0;

  // The whole stored picture [height, width, 3], black, for decoders that fill rows in any order: they then call
  // neither Row nor Done. nullptr: this sink takes rows in order only.
  virtual uint8_t* WholeImage() { return nullptr; }
};

}  // namespace lion
