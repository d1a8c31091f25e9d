#include "client/cli/bench/workload.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/bench/random.h"
#include "client/cli/bench/synthetic_image.h"

namespace lion::bench {
namespace {

constexpr int64_t kMaxVariants = 8;
constexpr int64_t kMaxPixelBytes = int64_t{32} << 20;  // of the variants of a size

absl::Status AddInput(const BenchFlags& flags, Pixels image, v1::Input& input) {
  if (flags.format == ImageFormat::kPixels) {
    v1::PixelTensor& pixels = *input.mutable_pixels();
    pixels.set_type(v1::PixelTensor::TYPE_UINT8);
    pixels.set_width(static_cast<uint32_t>(image.width));
    pixels.set_height(static_cast<uint32_t>(image.height));
    pixels.set_data(std::move(image.planes));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> file = flags.format == ImageFormat::kPng ? EncodePng(image) : EncodeJpeg(image);
  if (!file.ok()) return file.status();
  input.set_image(*std::move(file));
  return absl::OkStatus();
}

template <typename Request>
absl::StatusOr<PreparedRequest> Build(Request request, const BenchFlags& flags, const SizeShare& size, Random& random) {
  request.set_model(flags.model);
  request.mutable_options()->set_priority(flags.priority);
  if (flags.format != ImageFormat::kPixels) request.mutable_options()->mutable_image()->set_resize(flags.resize);
  for (int i = 0; i < flags.inputs_per_call; ++i) {
    absl::Status status = AddInput(flags, SyntheticImage(size.width, size.height, random()), *request.add_inputs());
    if (!status.ok()) return status;
  }
  return PreparedRequest(Prepared<Request>(request));
}

absl::StatusOr<PreparedRequest> BuildOne(const BenchFlags& flags, const SizeShare& size, Random& random) {
  if (flags.call == CallKind::kClassify) {
    v1::ClassifyRequest request;
    request.set_top_k(5);
    return Build(std::move(request), flags, size, random);
  }
  v1::EmbedRequest request;
  request.set_packed_bytes(true);
  return Build(std::move(request), flags, size, random);
}

}  // namespace

absl::StatusOr<std::vector<std::vector<PreparedRequest>>> BuildRequests(const BenchFlags& flags,
                                                                        const std::vector<SizeShare>& mix) {
  Random random(flags.seed);
  std::vector<std::vector<PreparedRequest>> requests;
  for (const SizeShare& size : mix) {
    const int64_t image_bytes = 3 * size.width * size.height;
    const int64_t call_bytes = image_bytes * flags.inputs_per_call;
    const int64_t message_bytes = flags.format == ImageFormat::kPixels ? call_bytes : image_bytes;
    if (message_bytes > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(SizeName(size), ": ", message_bytes, " bytes of pixels; a message can hold 2147483647"));
    }
    std::vector<PreparedRequest>& variants = requests.emplace_back();
    for (int64_t i = std::clamp<int64_t>(kMaxPixelBytes / call_bytes, 1, kMaxVariants); i > 0; --i) {
      absl::StatusOr<PreparedRequest> request = BuildOne(flags, size, random);
      if (!request.ok()) return request.status();
      variants.push_back(*std::move(request));
    }
  }
  return requests;
}

}  // namespace lion::bench
