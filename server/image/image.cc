#include "server/image/image.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lion {

absl::StatusOr<RgbImage> RgbImage::Create(ImageSize size) {
  RgbImage image;
  image.size_ = size;
  // calloc and not operator new: fresh zero pages are free, and failure is a status and not an exception.
  image.pixels_.reset(static_cast<uint8_t*>(std::calloc(static_cast<size_t>(image.bytes() + kReadSlack), 1)));
  if (image.pixels_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for an image of ", size.width, " x ", size.height, " pixels"));
  }
  return image;
}

void RgbImage::CropInPlace(ImageSize size) {
  if (size == size_) return;
  for (int64_t y = 1; y < size.height; ++y) {
    std::memmove(pixels() + y * size.width * 3, row(y), static_cast<size_t>(size.width * 3));
  }
  size_ = size;
}

}  // namespace lion
