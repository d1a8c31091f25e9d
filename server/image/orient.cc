#include "server/image/orient.h"

#include <cstring>
#include <utility>

#include "server/image/out_of_memory.h"

namespace lion {

absl::StatusOr<OrientedImage> OrientedImage::Create(ImageSize stored, int orientation) {
  return WithinMemory("no memory to turn an image upright", [&] { return Allocate(stored, orientation); });
}

absl::StatusOr<OrientedImage> OrientedImage::Allocate(ImageSize stored, int orientation) {
  OrientedImage sink;
  sink.stored_ = stored;
  sink.orientation_ = orientation;
  const bool transposed = orientation >= 5;
  const ImageSize size = transposed ? ImageSize{stored.height, stored.width} : stored;
  absl::StatusOr<RgbImage> image = RgbImage::Create(size);
  if (!image.ok()) return image.status();
  sink.image_ = *std::move(image);
  if (orientation == 1) return sink;

  // EXIF 2.3, tag 0x0112, as which output edges the stored first row and first column become.
  const bool right_to_left = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool bottom_to_top = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const int64_t across = right_to_left ? -3 : 3;
  const int64_t down = bottom_to_top ? -size.width * 3 : size.width * 3;
  sink.origin_ = (right_to_left ? (size.width - 1) * 3 : 0) + (bottom_to_top ? (size.height - 1) * size.width * 3 : 0);
  sink.step_x_ = transposed ? down : across;
  sink.step_y_ = transposed ? across : down;
  // An odd number of cache lines, so that the same column of all rows does not fall into one set of the cache.
  sink.strip_stride_ = ((stored.width * 3 + 63) / 64 | 1) * 64;
  const int64_t rows = transposed ? kStripRows : 1;
  sink.strip_.resize(static_cast<size_t>(rows * sink.strip_stride_ + 1));  // PlaceColumns reads one byte too far
  return sink;
}

uint8_t* OrientedImage::Row(int64_t y) {
  if (orientation_ == 1) return image_.row(y);
  return strip_.data() + (orientation_ >= 5 ? y % kStripRows * strip_stride_ : 0);
}

void OrientedImage::Done(int64_t y) {
  if (orientation_ == 1) return;
  if (orientation_ < 5) {
    PlaceRow(y);
    return;
  }
  const int64_t in_strip = y % kStripRows + 1;
  if (in_strip == kStripRows || y + 1 == stored_.height) PlaceColumns(y + 1 - in_strip, in_strip);
}

void OrientedImage::PlaceRow(int64_t y) {
  const uint8_t* from = strip_.data();
  uint8_t* to = image_.pixels() + origin_ + y * step_y_;
  if (step_x_ > 0) {
    std::memcpy(to, from, static_cast<size_t>(stored_.width * 3));
    return;
  }
  for (int64_t x = 0; x < stored_.width; ++x, from += 3, to -= 3) std::memcpy(to, from, 3);
}

// Stored rows first .. first + rows - 1 become columns.
void OrientedImage::PlaceColumns(int64_t first, int64_t rows) {
  // Left to right in the output, whichever way that is in the strip.
  const bool ascending = step_y_ > 0;
  const int64_t from_step = ascending ? strip_stride_ : -strip_stride_;
  const uint8_t* from_row = strip_.data() + (ascending ? 0 : (rows - 1) * strip_stride_);
  uint8_t* to_row = image_.pixels() + origin_ + (ascending ? first : first + rows - 1) * step_y_;
  for (int64_t x = 0; x < stored_.width; ++x) {
    const uint8_t* from = from_row + x * 3;
    uint8_t* to = to_row + x * step_x_;
    // Four bytes at a time, of which the next pixel overwrites the last.
    for (int64_t r = 1; r < rows; ++r, from += from_step, to += 3) std::memcpy(to, from, 4);
    std::memcpy(to, from, 3);
  }
}

}  // namespace lion
