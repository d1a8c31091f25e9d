#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"

namespace lion {
namespace {

// Divides by the L2 norm. A zero vector stays zero. The sum is float64, so that no finite float32 vector overflows it.
void Normalize(std::span<float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  if (sum == 0) return;
  const double scale = 1 / std::sqrt(sum);
  for (float& value : values) value = static_cast<float>(value * scale);
}

// Probabilities in place, stable: nothing overflows.
void Softmax(std::span<float> values) {
  const float highest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (float& value : values) {
    value = std::exp(value - highest);
    sum += value;
  }
  for (float& value : values) value = static_cast<float>(value / sum);
}

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
  const auto width = static_cast<size_t>(config.width);
  const size_t kept = request.dimensions() == 0 ? width : request.dimensions();
  const auto rows = static_cast<size_t>(result.rows);
  std::vector<float>& values = result.embedding;
  // The kept columns of each row move to the front; source and target may overlap, the target is never behind.
  for (size_t row = 0; kept < width && row < rows; ++row) {
    std::copy_n(values.begin() + static_cast<int64_t>(row * width), kept,
                values.begin() + static_cast<int64_t>(row * kept));
  }
  values.resize(rows * kept);
  if (request.has_normalize() ? request.normalize() : config.normalize) {
    for (size_t row = 0; row < rows; ++row) Normalize(std::span(values).subspan(row * kept, kept));
  }
  v1::Embedding* embedding = out->mutable_embedding();
  embedding->set_rows(static_cast<uint32_t>(rows));
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
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t shown = request.top_k() == 0 ? order.size() : std::min<size_t>(request.top_k(), order.size());
  // By the logits, in which classes still differ whose probabilities have both become 0; then by index.
  std::partial_sort(
      order.begin(), order.begin() + static_cast<int64_t>(shown), order.end(),
      [&scores](uint32_t a, uint32_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  if (!request.raw_scores() && !config.regression) Softmax(scores);
  v1::Classification* classification = out->mutable_classification();
  classification->mutable_scores()->Reserve(static_cast<int>(shown));
  for (size_t i = 0; i < shown; ++i) {
    v1::ClassScore* score = classification->add_scores();
    score->set_index(order[i]);
    score->set_label(order[i] < config.labels.size() ? config.labels[order[i]] : absl::StrCat(order[i]));
    score->set_score(scores[order[i]]);
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
