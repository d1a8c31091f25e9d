// Turns a picture upright while its rows arrive, so that it is never held twice.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace lion {

// A sink that places the rows of a stored picture as EXIF's orientation 1 to 8 wants them.
class OrientedImage final : public RowSink {
 public:
  // Rows gathered before they are placed when columns become rows: each cache line and page of the output is then
  // written once per strip and not once per row.
  static constexpr int64_t kStripRows = 64;

  // RESOURCE_EXHAUSTED: no memory.
  static absl::StatusOr<OrientedImage> Create(ImageSize stored, int orientation);

  uint8_t* Row(int64_t y) override;
  void Done(int64_t y) override;
  uint8_t* WholeImage() override { return orientation_ == 1 ? image_.pixels() : nullptr; }

  // The upright picture, once every row is done. Leaves the sink empty.
  RgbImage Take() { return std::move(image_); }

 private:
  OrientedImage() = default;
  // Create, which may throw std::bad_alloc.
  static absl::StatusOr<OrientedImage> Allocate(ImageSize stored, int orientation);
  void PlaceRow(int64_t y);
  void PlaceColumns(int64_t first, int64_t rows);

  ImageSize stored_;
  int orientation_ = 1;
  // Stored pixel (x, y) goes to byte origin_ + x step_x_ + y step_y_ of the output.
  int64_t origin_ = 0;
  int64_t step_x_ = 0;
  int64_t step_y_ = 0;
  int64_t strip_stride_ = 0;
  std::vector<uint8_t> strip_;  // kStripRows rows, or one when rows stay rows; none when upright
  RgbImage image_;
};

}  // namespace lion
