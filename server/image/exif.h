// The orientation entry of an EXIF block (EXIF 2.3, TIFF 6.0): how a picture must be turned to stand upright.
#pragma once

#include <string_view>

namespace lion {

// `block` is a TIFF structure, with or without the "Exif\0\0" that JPEG puts before it, in either byte order.
// Returns 1 (upright) to 8; 1 too when the block is broken or has no usable entry. Never reads outside `block`.
int ExifOrientation(std::string_view block);

}  // namespace lion
