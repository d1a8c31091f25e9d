#include "server/reply_size.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

// What a reply's ClassScore takes: the message, its label on the heap, and both on the wire.
constexpr int64_t kClassScoreBytes = 128;
// A reply's floats, in the message and on the wire.
constexpr int64_t kReplyCopies = 2;
// A predicted token: the engine's, the message, its text on the heap, and both on the wire.
constexpr int64_t kPredictionBytes = 144;
// A token of Tokenize: the same, with its place in the text.
constexpr int64_t kTokenBytes = 192;
constexpr int64_t kSpecialTokens = 3;
// Of one Tokenize: a model's replies are made one after another, and this many take about a tenth of a second.
constexpr int64_t kMaxTokensOfReply = int64_t{1} << 19;

}  // namespace

absl::StatusOr<int64_t> ReplyBytes(const InferenceCall& call, const ReplySize& size, const ModelConfig& config,
                                   int64_t max_reply_bytes) {
  int64_t bytes = size.inputs * call.class_scores * kClassScoreBytes;
  if (call.embedding) {
    const bool row_per_token = call.pooling == Pooling::kNone;
    const int64_t row_bytes = config.width * static_cast<int64_t>(sizeof(float));
    if (row_per_token && size.tokens > max_reply_bytes / row_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("one row per token of up to ", size.tokens, " tokens is more than the ", max_reply_bytes,
                       " bytes a reply may have: split the call, or choose another pooling"));
    }
    bytes += kReplyCopies * (row_per_token ? size.tokens : size.inputs) * row_bytes;
  }
  const int64_t predictions = std::min(call.predictions, config.vocabulary);
  if (predictions > 0) {
    if (size.masks > max_reply_bytes / (predictions * kPredictionBytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat(predictions, " predictions for each of up to ", size.masks, " masks are more than the ",
                       max_reply_bytes, " bytes a reply may have: split the call, or ask for fewer (top_k)"));
    }
    bytes += size.masks * predictions * kPredictionBytes;
  }
  if (call.encoding) {
    const int64_t tokens = size.work + kSpecialTokens * size.inputs;
    if (tokens > kMaxTokensOfReply) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the call has ", size.work, " bytes of text, the limit of Tokenize is ",
          kMaxTokensOfReply - kSpecialTokens * size.inputs, " for ", size.inputs, " inputs: split the call"));
    }
    if (tokens > max_reply_bytes / kTokenBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tokens of ", size.work, " bytes of text may take more than the ", max_reply_bytes,
                       " bytes a reply may have: send at most ", max_reply_bytes / kTokenBytes, " bytes in a call"));
    }
    bytes += tokens * kTokenBytes;
  }
  return bytes;
}

}  // namespace lion
