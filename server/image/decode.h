// Encoded pictures from strangers -> 8-bit RGB, to the bit what Pillow's ImageOps.exif_transpose and convert("RGB")
// give. JPEG (baseline, progressive, arithmetic-coded; gray, YCbCr, RGB, CMYK, YCCK), PNG (every colour type and depth)
// and WebP (lossy, lossless); of an animation the first frame. Rules: docs/mathematics.md, section 3. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/image/image.h"
#include "server/image/image_header.h"

namespace lion {

struct DecodeOptions {
  // Turn the picture upright as its EXIF block says. false: pixels as stored.
  bool apply_exif_orientation = true;
  // false: a file that is cut off is INVALID_ARGUMENT. true: it is decoded as far as it goes, the rest is black (PNG,
  // WebP) or what libjpeg makes of missing data; damage within the pixels then ends the picture in the same way.
  bool allow_truncated = false;
  // Width times height over which a picture is refused, from its header, before anything of its size is allocated.
  int64_t max_pixels = int64_t{256} << 20;
};

// Size of the picture that DecodeImage would give. Reads the header only. INVALID_ARGUMENT: not a JPEG, PNG or WebP
// file, broken or cut-off header, more than max_pixels.
absl::StatusOr<ImageSize> ReadImageSize(std::string_view encoded, const DecodeOptions& options);

// INVALID_ARGUMENT as ReadImageSize, and for pixel data that are cut off ("truncated ...") or broken ("damaged ...").
// RESOURCE_EXHAUSTED: the memory for the picture cannot be had.
absl::StatusOr<RgbImage> DecodeImage(std::string_view encoded, const DecodeOptions& options);

// The header, if the picture is within max_pixels.
absl::StatusOr<ImageHeader> ReadCheckedHeader(std::string_view encoded, const DecodeOptions& options);

// Decodes to a sink in stored orientation, for callers that do not want the picture in memory. After OK the sink has
// had every row, or its WholeImage() is complete. `header` is ReadCheckedHeader's.
absl::Status DecodeRows(std::string_view encoded, const ImageHeader& header, const DecodeOptions& options,
                        RowSink& sink);

// Bytes that decoding holds at its peak, an upper estimate, for a memory budget over concurrent calls: with the whole
// picture, or only the decoder's own when rows go to a sink that keeps none.
int64_t DecodeMemoryBytes(const ImageHeader& header, bool whole_picture);

// The orientation that `options` leave to be applied, and the size after it.
int OrientationToApply(const ImageHeader& header, const DecodeOptions& options);
ImageSize UprightSize(ImageSize stored, int orientation);

}  // namespace lion
