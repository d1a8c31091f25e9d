// From an encoded picture to the pixels that are cut into patches: decode, turn upright, resize, crop
// (docs/mathematics.md, section 3). Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model_loader/model_config.h"
#include "server/image/decode.h"
#include "server/image/image.h"
#include "server/image/resize.h"

namespace lion {

struct ImagePreprocessOptions {
  ImageConfig config;    // resize, size and crop_ratio; mean and std are NormalizeToFloat's alone
  DecodeOptions decode;  // max_pixels holds for the result, too
};

// How an upright picture of a given size is resized and cropped; `part` is the final size. INVALID_ARGUMENT, naming
// what was found and expected: a result smaller than a patch or over max_pixels; size, crop_ratio or patch_size out of
// range.
absl::StatusOr<ResizeGeometry> PlanResize(ImageSize upright, const ImagePreprocessOptions& options, int64_t patch_size);

// The size of PreprocessImage's result: whole patches, so that (width / patch_size) * (height / patch_size) is their
// number.
absl::StatusOr<ImageSize> PreprocessedSize(int64_t width, int64_t height, const ImagePreprocessOptions& options,
                                           int64_t patch_size);

// What PreprocessImage will give and need, from the header alone: for admission.
struct PreprocessPlan {
  ImageSize size;            // of the result
  int64_t memory_bytes = 0;  // at its peak, the result included; an upper estimate
};
absl::StatusOr<PreprocessPlan> PlanPreprocess(std::string_view encoded, const ImagePreprocessOptions& options,
                                              int64_t patch_size);

// The result is tight, [height, width, 3], and holds whole patches only: pixels right of and below the last one are
// gone. A picture that need not be turned is resized while it is decoded and never held at its full size (interlaced
// PNG and WebP are). Errors of PlanResize and of DecodeImage.
absl::StatusOr<RgbImage> PreprocessImage(std::string_view encoded, const ImagePreprocessOptions& options,
                                         int64_t patch_size);

// (x / 255 - mean) / std in float32, in that order. [height, width, 3] -> planar [3, height, width].
std::vector<float> NormalizeToFloat(const RgbImage& image, const ImageConfig& config);

}  // namespace lion
