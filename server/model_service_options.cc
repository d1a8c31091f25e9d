#include "server/model_service_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr int64_t kBatchesInQueue = 16;

}  // namespace

absl::StatusOr<ModelServiceOptions> SettleOptions(const ModelServiceOptions& options, int64_t engine_tokens) {
  ModelServiceOptions settled = options;
  settled.max_batch_tokens = std::min(options.max_batch_tokens, engine_tokens);
  if (options.max_input_tokens < 0 || options.max_input_tokens > engine_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("max input tokens: got ", options.max_input_tokens, ", want 0 to ",
                                                   engine_tokens, ", the engine's largest batch"));
  }
  if (settled.max_input_tokens == 0) {
    settled.max_input_tokens =
        options.max_queue_tokens > 0 ? std::min(engine_tokens, options.max_queue_tokens) : engine_tokens;
  }
  if (settled.max_queue_tokens == 0) {
    settled.max_queue_tokens = std::max(kBatchesInQueue * settled.max_batch_tokens, settled.max_input_tokens);
  }
  if (settled.max_queue_tokens < settled.max_input_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("--max-queue-tokens: got ", settled.max_queue_tokens,
                                                   ", want at least the largest input's ", settled.max_input_tokens));
  }
  if (settled.max_inputs_per_call < 1 || settled.max_image_pixels < 1 || settled.max_text_bytes < 1 ||
      settled.max_reply_bytes < 1) {
    return absl::InvalidArgumentError(
        "max inputs per call, image pixels, text bytes and reply bytes must be at least 1");
  }
  return settled;
}

}  // namespace lion
