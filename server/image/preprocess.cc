#include "server/image/preprocess.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/image/out_of_memory.h"

namespace lion {
namespace {

// Sides of a resized picture (of which only a part may be computed) stay below this, so that products of two sides are
// exact in double.
constexpr int64_t kMaxTargetSide = 1 << 24;

// n / 2 rounded half to even, n >= 0.
int64_t HalfRoundedToEven(int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0 ? 1 : 0); }

absl::Status OutOfRange(const char* what, double found, const char* expected) {
  return absl::InvalidArgumentError(absl::StrFormat("image option %s is %.10g; expected %s", what, found, expected));
}

// The training recipe: the short side to int(size / crop_ratio), then the centre.
ResizeGeometry CenterCrop(ImageSize source, int64_t size, int64_t target) {
  ResizeGeometry geometry;
  geometry.source = source;
  const int64_t shorter = std::min(source.width, source.height);
  const int64_t longer = std::max(source.width, source.height);
  const auto other = static_cast<int64_t>(static_cast<double>(target * longer) / static_cast<double>(shorter));
  geometry.resized = source.width <= source.height ? ImageSize{target, other} : ImageSize{other, target};
  geometry.left = HalfRoundedToEven(geometry.resized.width - size);
  geometry.top = HalfRoundedToEven(geometry.resized.height - size);
  geometry.part = {size, size};
  return geometry;
}

ImageSize LongSide(ImageSize source, int64_t size) {
  const int64_t shorter = std::min(source.width, source.height);
  const int64_t longer = std::max(source.width, source.height);
  const double exact = static_cast<double>(shorter * size) / static_cast<double>(longer);
  const int64_t other = std::max<int64_t>(1, static_cast<int64_t>(exact + 0.5));
  return source.width >= source.height ? ImageSize{size, other} : ImageSize{other, size};
}

}  // namespace

absl::StatusOr<ResizeGeometry> PlanResize(ImageSize upright, const ImagePreprocessOptions& options,
                                          int64_t patch_size) {
  const ImageConfig& config = options.config;
  if (patch_size <= 0) return OutOfRange("patch_size", static_cast<double>(patch_size), "at least 1");
  if (config.resize != Resize::kNone && (config.size <= 0 || config.size >= kMaxTargetSide)) {
    return OutOfRange("size", static_cast<double>(config.size), "1 to 16777215 pixels");
  }
  ResizeGeometry geometry;
  geometry.source = upright;
  switch (config.resize) {
    case Resize::kCenterCrop: {
      if (!(config.crop_ratio > 0.0 && config.crop_ratio <= 1.0)) {
        return OutOfRange("crop_ratio", config.crop_ratio, "over 0 and at most 1");
      }
      const double target = static_cast<double>(config.size) / config.crop_ratio;
      if (target >= static_cast<double>(kMaxTargetSide)) {
        return OutOfRange("size / crop_ratio", target, "less than 16777216 pixels");
      }
      geometry = CenterCrop(upright, config.size, static_cast<int64_t>(target));
      break;
    }
    case Resize::kStretch:
      geometry.resized = geometry.part = {config.size, config.size};
      break;
    case Resize::kLongSide:
      geometry.resized = geometry.part = LongSide(upright, config.size);
      break;
    case Resize::kNone:
      geometry.resized = geometry.part = upright;
      break;
  }
  const ImageSize whole = geometry.part;
  if (whole.width > options.decode.max_pixels / whole.height) {
    return absl::InvalidArgumentError(absl::StrCat("image would have ", whole.width, " x ", whole.height, " = ",
                                                   whole.width * whole.height, " pixels after resizing; the limit is ",
                                                   options.decode.max_pixels, " (--max-image-pixels)"));
  }
  if (std::min(whole.width, whole.height) < patch_size) {
    return absl::InvalidArgumentError(absl::StrCat("image is ", whole.width, " x ", whole.height,
                                                   " pixels after preprocessing, smaller than one patch of ",
                                                   patch_size, " x ", patch_size));
  }
  geometry.part = {whole.width / patch_size * patch_size, whole.height / patch_size * patch_size};
  return geometry;
}

absl::StatusOr<ImageSize> PreprocessedSize(int64_t width, int64_t height, const ImagePreprocessOptions& options,
                                           int64_t patch_size) {
  const absl::StatusOr<ResizeGeometry> geometry = PlanResize({width, height}, options, patch_size);
  if (!geometry.ok()) return geometry.status();
  return geometry->part;
}

namespace {

// What is known of an encoded picture before its pixels.
struct Outline {
  ImageHeader header;
  int orientation = 1;  // to be applied
  ResizeGeometry geometry;
};

absl::StatusOr<Outline> ReadOutline(std::string_view encoded, const ImagePreprocessOptions& options,
                                    int64_t patch_size) {
  const absl::StatusOr<ImageHeader> header = ReadCheckedHeader(encoded, options.decode);
  if (!header.ok()) return header.status();
  const int orientation = OrientationToApply(*header, options.decode);
  const absl::StatusOr<ResizeGeometry> geometry =
      PlanResize(UprightSize(header->stored, orientation), options, patch_size);
  if (!geometry.ok()) return geometry.status();
  return Outline{*header, orientation, *geometry};
}

// PreprocessImage, which may throw std::bad_alloc.
absl::StatusOr<RgbImage> Preprocess(std::string_view encoded, const ImagePreprocessOptions& options,
                                    int64_t patch_size) {
  const absl::StatusOr<Outline> outline = ReadOutline(encoded, options, patch_size);
  if (!outline.ok()) return outline.status();
  if (outline->orientation == 1 && options.config.resize != Resize::kNone) {
    absl::StatusOr<std::unique_ptr<Resizer>> resizer = Resizer::Create(outline->geometry);
    if (!resizer.ok()) return resizer.status();
    absl::Status status = DecodeRows(encoded, outline->header, options.decode, **resizer);
    if (!status.ok()) return status;
    return (*resizer)->Take();
  }
  absl::StatusOr<RgbImage> image = DecodeImage(encoded, options.decode);
  if (!image.ok()) return image.status();
  if (options.config.resize != Resize::kNone) return ResizeImage(*image, outline->geometry);
  image->CropInPlace(outline->geometry.part);
  return image;
}

}  // namespace

absl::StatusOr<PreprocessPlan> PlanPreprocess(std::string_view encoded, const ImagePreprocessOptions& options,
                                              int64_t patch_size) {
  const absl::StatusOr<Outline> outline = ReadOutline(encoded, options, patch_size);
  if (!outline.ok()) return outline.status();
  const bool whole_picture = outline->orientation != 1 || options.config.resize == Resize::kNone;
  PreprocessPlan plan;
  plan.size = outline->geometry.part;
  plan.memory_bytes = DecodeMemoryBytes(outline->header, whole_picture) + ResizeMemoryBytes(outline->geometry);
  return plan;
}

absl::StatusOr<RgbImage> PreprocessImage(std::string_view encoded, const ImagePreprocessOptions& options,
                                         int64_t patch_size) {
  return WithinMemory("no memory to preprocess an image", [&] { return Preprocess(encoded, options, patch_size); });
}

std::vector<float> NormalizeToFloat(const RgbImage& image, const ImageConfig& config) {
  const int64_t count = image.width() * image.height();
  std::vector<float> planes(static_cast<size_t>(count * 3));
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(image.pixels()[i * 3 + c]) / 255.0f;
      planes[c * count + i] = (value - config.mean[c]) / config.std[c];
    }
  }
  return planes;
}

}  // namespace lion
