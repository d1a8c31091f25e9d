// Pillow's antialiased bicubic on 8-bit RGB, to the bit (docs/mathematics.md, section 3): the horizontal pass first, 8
// bits between the passes, clamped. Only the wanted part of the result is computed, and the source is never held: rows
// go in, so that decoding and resizing together need a few megabytes even for the largest picture.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace lion {

struct ResizeGeometry {
  ImageSize source;
  ImageSize resized;  // the whole source at its new size; equal to it along an axis that is not resampled
  int64_t left = 0;   // the part [top, top + part.height) x [left, left + part.width) of it is computed
  int64_t top = 0;
  ImageSize part;
};

// Bytes a Resizer holds, its result included; an upper estimate.
int64_t ResizeMemoryBytes(const ResizeGeometry& geometry);

// A sink that resizes the rows it is given. One thread at a time.
class Resizer final : public RowSink {
 public:
  // All sides must be positive and the part must lie inside `resized`. RESOURCE_EXHAUSTED: no memory.
  static absl::StatusOr<std::unique_ptr<Resizer>> Create(const ResizeGeometry& geometry);
  ~Resizer() override;

  uint8_t* Row(int64_t y) override;
  void Done(int64_t y) override;

  // Takes rows first .. first + count - 1 from memory, `stride` bytes apart, RgbImage::kReadSlack readable behind the
  // last: the other way to feed it, without a copy. count <= 16; every row once and in order.
  void AddRows(const uint8_t* rows, int64_t stride, int64_t first, int64_t count);

  // The part, once all source rows are done. Leaves the sink empty.
  RgbImage Take();

 private:
  struct State;
  explicit Resizer(std::unique_ptr<State> state);
  // Create, which may throw std::bad_alloc. All memory is taken here: rows then arrive from within C libraries.
  static absl::StatusOr<std::unique_ptr<Resizer>> Allocate(const ResizeGeometry& geometry);
  std::unique_ptr<State> state_;
};

// The same for a picture in memory, with the same errors. `geometry.source` must be its size.
absl::StatusOr<RgbImage> ResizeImage(const RgbImage& source, const ResizeGeometry& geometry);

}  // namespace lion
