#include "server/image_preparer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/image/preprocess.h"
#include "server/pushback.h"

namespace lion {
namespace {

// Every pixel is decoded, every row resized to the width of the result, and the result written.
int64_t DecodePixels(std::string_view encoded, const DecodeOptions& options, ImageSize result) {
  const absl::StatusOr<ImageSize> source = ReadImageSize(encoded, options);
  if (!source.ok()) return 0;
  return source->width * source->height + source->height * result.width + result.width * result.height;
}

PreparedInput OfPixels(RgbImage pixels, int64_t tokens) {
  PreparedInput prepared;
  prepared.tokens = tokens;
  prepared.pixels = std::move(pixels);
  const RgbImage& image = prepared.pixels;
  prepared.image = {PixelLayout::kInterleavedUint8, image.pixels(), image.height(), image.width()};
  return prepared;
}

}  // namespace

absl::StatusOr<InputCost> ImagePreparer::Check(const InferenceCall& call, const InferenceInput& input,
                                               PreparedInput* prepared) const {
  if (!input.status.ok()) return input.status;
  InputCost cost;
  if (input.encoded.empty()) {
    if (!input.pixels.has_value()) return absl::InvalidArgumentError("the model takes images, and there is none");
    absl::StatusOr<int64_t> tokens = CheckTokens(input.pixels->height, input.pixels->width);
    if (!tokens.ok()) return tokens.status();
    cost.least_tokens = cost.most_tokens = *tokens;
    cost.ready = true;
    prepared->tokens = *tokens;
    prepared->image = *input.pixels;
    return cost;
  }
  absl::StatusOr<PreprocessPlan> plan = PlanPreprocess(input.encoded, call.image, engine_->config().patch_size);
  if (!plan.ok()) return plan.status();
  if (plan->memory_bytes > max_decode_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decoding the image takes up to ", plan->memory_bytes, " bytes of memory, the limit is ", max_decode_bytes_,
        " (--max-decode-bytes): send fewer pixels or a baseline JPEG, which is decoded row by row, or raise the "
        "limit"));
  }
  absl::StatusOr<int64_t> tokens = CheckTokens(plan->size.height, plan->size.width);
  if (!tokens.ok()) return tokens.status();
  cost.least_tokens = cost.most_tokens = *tokens;
  cost.work = DecodePixels(input.encoded, call.image.decode, plan->size);
  cost.memory_bytes = plan->memory_bytes;
  return cost;
}

absl::StatusOr<int64_t> ImagePreparer::CheckTokens(int64_t height, int64_t width) const {
  absl::StatusOr<int64_t> tokens = engine_->CountTokens(height, width);
  if (!tokens.ok() || *tokens <= max_tokens_) return tokens;
  return absl::InvalidArgumentError(absl::StrCat("an image of ", width, "x", height, " pixels has ", *tokens,
                                                 " tokens, the limit is ", max_tokens_, " (--max-input-tokens)"));
}

absl::StatusOr<PreparedInput> ImagePreparer::Prepare(const InferenceCall& call, const InferenceInput& input) const {
  absl::StatusOr<RgbImage> image = PreprocessImage(input.encoded, call.image, engine_->config().patch_size);
  if (absl::IsResourceExhausted(image.status())) return TryAgainIn(kUnknownPushbackMs, image.status().message());
  if (!image.ok()) return image.status();
  absl::StatusOr<int64_t> tokens = engine_->CountTokens(image->height(), image->width());
  if (!tokens.ok()) return tokens.status();
  return OfPixels(*std::move(image), *tokens);
}

absl::StatusOr<PreparedInput> ImagePreparer::Blank() const {
  int64_t side = engine_->config().image.size;
  absl::StatusOr<int64_t> tokens = engine_->CountTokens(side, side);
  if (!tokens.ok()) return tokens.status();
  if (*tokens > max_tokens_) {
    side = engine_->config().patch_size;
    tokens = engine_->CountTokens(side, side);
    if (!tokens.ok()) return tokens.status();
  }
  absl::StatusOr<RgbImage> image = RgbImage::Create({side, side});
  if (!image.ok()) return image.status();
  return OfPixels(*std::move(image), *tokens);
}

}  // namespace lion
