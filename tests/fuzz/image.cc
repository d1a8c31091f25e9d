#include "tests/fuzz/image.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "server/image/preprocess.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/peak_memory.h"

namespace lion::fuzz {
namespace {

// What a status with its message and a few small strings take.
constexpr int64_t kSmallBytes = 4096;

struct Options {
  ImagePreprocessOptions preprocess;
  int64_t patch_size = 1;
};

Options ReadOptions(const uint8_t* bytes) {
  constexpr Resize kResizes[] = {Resize::kNone, Resize::kCenterCrop, Resize::kStretch, Resize::kLongSide};
  constexpr int64_t kPatchSizes[] = {1, 4, 8, 16};
  Options options;
  options.preprocess.config.resize = kResizes[bytes[0] & 3];
  options.preprocess.decode.apply_exif_orientation = (bytes[0] & 4) == 0;
  options.preprocess.decode.allow_truncated = (bytes[0] & 8) != 0;
  options.patch_size = kPatchSizes[bytes[0] >> 4 & 3];
  // Mostly small pictures, for speed; one in four may be of a size at which the planned memory is mostly pixels.
  options.preprocess.decode.max_pixels = int64_t{1} << (bytes[0] >> 6 == 3 ? 20 : 15);
  options.preprocess.config.size = bytes[1];
  options.preprocess.config.crop_ratio = (bytes[2] + 1) / 256.0;
  // A side that no picture of the limits above has.
  if (bytes[3] == 255) options.preprocess.config.size <<= 14;
  return options;
}

}  // namespace

void PreprocessAsPlanned(const uint8_t* data, size_t size) {
  if (size < kImageOptionBytes) return;
  size -= kImageOptionBytes;
  const Options options = ReadOptions(data + size);
  // Of exactly this size, so that AddressSanitizer sees a read behind the file.
  const std::vector<uint8_t> copy(data, data + size);
  const std::string_view encoded = AsText(copy.data(), size);

  const absl::StatusOr<PreprocessPlan> plan = PlanPreprocess(encoded, options.preprocess, options.patch_size);
  CheckRefusal(plan.status(), absl::StatusCode::kInvalidArgument, "planning");
  PeakMemory memory;
  const absl::StatusOr<RgbImage> image = PreprocessImage(encoded, options.preprocess, options.patch_size);
  CheckRefusal(image.status(), absl::StatusCode::kInvalidArgument, "preprocessing");
  if (!plan.ok()) {
    Check(image.status() == plan.status(), "what planning refuses is refused for the same reason");
    return;
  }
  CheckAtMost(memory.bytes(), plan->memory_bytes + kSmallBytes, "bytes of memory to preprocess an image as planned");
  if (!image.ok()) return;
  CheckEqual(image->width(), plan->size.width, "the width of the result");
  CheckEqual(image->height(), plan->size.height, "the height of the result");
  Check(image->width() > 0 && image->width() % options.patch_size == 0, "a row of the result is whole patches");
  Check(image->height() > 0 && image->height() % options.patch_size == 0, "a column of the result is whole patches");
  CheckAtMost(image->width() * image->height(), options.preprocess.decode.max_pixels, "pixels of the result");
  // Every pixel is there.
  volatile const int64_t sum = std::accumulate(image->pixels(), image->pixels() + image->bytes(), int64_t{0});
  static_cast<void>(sum);
}

}  // namespace lion::fuzz
