// An EXIF block alone, and the same block inside a JPEG.
#include <string>

#include "server/image/exif.h"
#include "server/image/image_header.h"
#include "tests/fuzz/check.h"

namespace lion {
namespace {

using namespace std::string_literals;

// Start of image, the block as APP1, a frame header of 3 x 2 pixels, the beginning of a scan.
std::string JpegWith(std::string_view exif) {
  const size_t length = exif.size() + 2;
  return "\xff\xd8\xff\xe1"s + static_cast<char>(length >> 8) + static_cast<char>(length) + std::string(exif) +
         "\xff\xc0\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x11\x00\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"s;
}

}  // namespace
}  // namespace lion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  using namespace std::string_literals;
  const std::string_view block = fuzz::AsText(data, size);
  const int orientation = ExifOrientation(block);
  fuzz::Check(orientation >= 1 && orientation <= 8, "an orientation is 1 to 8");

  // Behind the six bytes that JPEG puts before it.
  const std::string marked = "Exif\0\0"s + std::string(block);
  if (!block.starts_with("Exif\0\0"s))
    fuzz::CheckEqual(ExifOrientation(marked), orientation, "the orientation in a JPEG");
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(JpegWith(marked));
  fuzz::Check(header.ok() && header->stored == ImageSize{3, 2}, "a JPEG's header can be read whatever its EXIF block");
  fuzz::CheckEqual(header->orientation, ExifOrientation(marked), "the orientation of the header");
  return 0;
}
