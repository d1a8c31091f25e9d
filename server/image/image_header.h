// What an encoded picture says about itself before its pixels: format, size, orientation. Allocates nothing.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace lion {

enum class ImageFormat : uint8_t { kJpeg, kPng, kWebp };

struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  ImageSize stored;        // as in the file, before it is turned upright; both sides positive
  int orientation = 1;     // EXIF, 1 to 8; 5 to 8 swap width and height
  bool truncated = false;  // the file's own structure runs past its end (PNG and WebP; a JPEG shows it while decoding)
  // What the decoder holds besides the RGB pixels, an upper estimate: all coefficients of a progressive JPEG, ...
  int64_t decoder_bytes = 0;
};

// Recognises the format by its first bytes, never by a name. INVALID_ARGUMENT, saying what was found, for anything but
// JPEG, PNG or WebP, for a header that is cut off ("truncated") or broken, and for a side of 0. Pixels are not looked
// at.
absl::StatusOr<ImageHeader> ReadImageHeader(std::string_view encoded);

}  // namespace lion
