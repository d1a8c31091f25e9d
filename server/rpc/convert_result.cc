#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/convert.h"
#include "server/rpc/reply_values.h"
#include "server/rpc/status.h"

namespace lion {
namespace {

// What results have in common. False: there is only an error.
template <class Out>
bool FillCommon(const InputReply& reply, Out* out) {
  out->set_tokens(static_cast<uint32_t>(reply.tokens));
  out->set_truncated(reply.truncated);
  if (!reply.status.ok()) *out->mutable_error() = ToError(reply.status);
  return reply.status.ok();
}

}  // namespace

void ConvertReply(const v1::EmbedRequest& request, const ModelService& model, InputReply reply, v1::EmbedResult* out) {
  if (!FillCommon(reply, out)) return;
  Result& result = reply.result;
  const ModelConfig& config = model.engine().config();
  std::vector<float>& values = result.embedding;
  const std::optional<bool> normalize =
      request.has_normalize() ? std::optional<bool>(request.normalize()) : std::nullopt;
  const int64_t kept = FinishEmbedding(config, request.dimensions(), normalize, &values);
  v1::Embedding* embedding = out->mutable_embedding();
  embedding->set_rows(static_cast<uint32_t>(result.rows));
  embedding->set_dimensions(static_cast<uint32_t>(kept));
  if (request.packed_bytes()) {
    embedding->set_data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  } else {
    embedding->mutable_values()->Add(values.begin(), values.end());
  }
}

void ConvertReply(const v1::ClassifyRequest& request, const ModelService& model, InputReply reply,
                  v1::ClassifyResult* out) {
  if (!FillCommon(reply, out)) return;
  Result& result = reply.result;
  const ModelConfig& config = model.engine().config();
  std::vector<float>& scores = result.logits;
  const std::vector<uint32_t> order = HighestClasses(scores, request.top_k());
  if (!request.raw_scores() && !config.regression) Softmax(scores);
  v1::Classification* classification = out->mutable_classification();
  classification->mutable_scores()->Reserve(static_cast<int>(order.size()));
  for (const uint32_t index : order) {
    v1::ClassScore* score = classification->add_scores();
    score->set_index(index);
    score->set_label(LabelOf(config, index));
    score->set_score(scores[index]);
  }
}

void ConvertReply(const v1::FillMaskRequest&, const ModelService& model, InputReply reply, v1::FillMaskResult* out) {
  if (!FillCommon(reply, out)) return;
  v1::FilledMasks* filled = out->mutable_filled();
  const std::vector<TokenScore>& scores = reply.result.predictions;
  const size_t shown = scores.size() / reply.masked.size();
  for (size_t i = 0; i < reply.masked.size(); ++i) {
    v1::MaskPrediction* mask = filled->add_masks();
    mask->set_position(static_cast<uint32_t>(reply.masked[i]));
    mask->mutable_predictions()->Reserve(static_cast<int>(shown));
    for (const TokenScore& score : std::span(scores).subspan(i * shown, shown)) {
      v1::TokenPrediction* prediction = mask->add_predictions();
      prediction->set_id(score.id);
      prediction->set_token(std::string(model.tokenizer()->TokenText(score.id)));
      prediction->set_probability(score.probability);
    }
  }
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as its namesakes have it
void ConvertReply(const v1::TokenizeRequest&, const ModelService& model, InputReply reply, v1::TokenizedInput* out) {
  if (!reply.status.ok()) {
    *out->mutable_error() = ToError(reply.status);
    return;
  }
  const Encoding& encoding = reply.encoding;
  out->mutable_tokens()->Reserve(static_cast<int>(encoding.ids.size()));
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    v1::TokenizedInput::Token* token = out->add_tokens();
    token->set_id(encoding.ids[i]);
    token->set_text(std::string(model.tokenizer()->TokenText(encoding.ids[i])));
    token->set_start_byte(encoding.offsets[i].begin);
    token->set_end_byte(encoding.offsets[i].end);
    token->set_type_id(static_cast<uint32_t>(encoding.type_ids[i]));
  }
}

v1::Timing ConvertTiming(const CallTiming& timing) {
  v1::Timing out;
  out.set_preprocess_ns(static_cast<uint64_t>(timing.preprocess_ns));
  out.set_queue_ns(static_cast<uint64_t>(timing.queue_ns));
  out.set_compute_ns(static_cast<uint64_t>(timing.compute_ns));
  out.set_batch_inputs(static_cast<uint32_t>(timing.batch_inputs));
  out.set_batch_tokens(static_cast<uint32_t>(timing.batch_tokens));
  return out;
}

}  // namespace lion
