#include "engine/text_engine.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

// Masked places that are worked on together, and predictions of them together.
constexpr size_t kMaxMasked = 256;
constexpr int64_t kMaxScores = 1 << 20;

}  // namespace

TextEngine::TextEngine(const ModelConfig& config, const EnginePlan& plan, PackedText weights)
    : EncoderEngine(config, plan), weights_(std::move(weights)) {}

absl::StatusOr<std::unique_ptr<Engine>> TextEngine::Create(const LoadedModel& model, const EnginePlan& plan) {
  absl::Status status = CheckKernels(model.config, plan);
  if (!status.ok()) return status;
  absl::StatusOr<PackedText> weights = PackText(model, *plan.operations, plan.data_type());
  if (!weights.ok()) return PackingError(weights.status(), plan);
  std::unique_ptr<TextEngine> engine(new TextEngine(model.config, plan, *std::move(weights)));
  if (status = engine->AllocateArena(); !status.ok()) return status;
  return engine;
}

absl::StatusOr<int64_t> TextEngine::CountTokens(int64_t, int64_t) const {
  return absl::InvalidArgumentError("the model takes text, not images");
}

absl::Status TextEngine::CheckText(const TextInput& text) const {
  const int64_t tokens = static_cast<int64_t>(text.ids.size()), positions = config().max_positions;
  if (tokens == 0) return absl::InvalidArgumentError("the text has no tokens");
  if (positions > 0 && tokens > positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", tokens, " tokens, the model has ", positions, " positions"));
  }
  if (!text.type_ids.empty() && text.type_ids.size() != text.ids.size()) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", text.type_ids.size(), " type ids for ", tokens,
                                                   " tokens: one for each, or none, is expected"));
  }
  const auto check = [](std::span<const int32_t> ids, int64_t count, const char* what) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < count) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(what, " ", ids[i], " of token ", i, " is not in [0, ", count, ")"));
    }
    return absl::OkStatus();
  };
  if (absl::Status status = check(text.ids, config().vocabulary, "id"); !status.ok()) return status;
  return check(text.type_ids, config().type_vocabulary, "type id");
}

int64_t TextEngine::TokensOf(const Request& request) const { return static_cast<int64_t>(request.text.ids.size()); }

absl::Status TextEngine::Embed(std::span<const Request> requests) {
  sequences_.clear();
  for (const Request& request : requests) {
    const TextInput& text = request.text;
    sequences_.push_back({text.ids.data(), text.type_ids.empty() ? nullptr : text.type_ids.data()});
  }
  return run().embed_tokens(context(), {.sequences = sequences_,
                                        .offsets = offsets(),
                                        .words = weights_.words.data(),
                                        .types = weights_.types.data(),
                                        .positions = weights_.positions.empty() ? nullptr : weights_.positions.data(),
                                        .width = config().width,
                                        .norm = weights_.embeddings_norm.parameters(),
                                        .x = x()});
}

absl::Status TextEngine::Project(const PackedLinear& linear, const float* input, int64_t rows,
                                 std::vector<float>& output) {
  output.resize(rows * linear.outputs());
  return run().linear(context(), {.input = input,
                                  .input_type = DataType::kFloat32,
                                  .rows = rows,
                                  .linear = &linear,
                                  .output = output.data(),
                                  .output_type = DataType::kFloat32});
}

absl::Status TextEngine::ReadHeads(std::span<const Request> requests, std::span<Result> results,
                                   const float* first_tokens) {
  const int64_t width = config().width, classes = config().classes, rows = static_cast<int64_t>(requests.size());
  absl::Status status = Project(*weights_.pooler, first_tokens, rows, pooler_);
  if (!status.ok()) return status;
  for (float& value : pooler_) value = std::tanh(value);
  if (classes > 0) {
    if (status = Project(*weights_.classifier, pooler_.data(), rows, logits_); !status.ok()) return status;
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].embedding && requests[i].pooling == Pooling::kPooler) {
      results[i].embedding.assign(&pooler_[i * width], &pooler_[i * width] + width);
      results[i].rows = 1;
    }
    if (requests[i].logits && classes > 0) {
      results[i].logits.assign(&logits_[i * classes], &logits_[i * classes] + classes);
    }
  }
  return absl::OkStatus();
}

absl::Status TextEngine::Predict(std::span<const Masked> masked, std::span<Result> results) {
  const int64_t width = config().width, rows = static_cast<int64_t>(masked.size());
  int64_t count = 0;
  masked_rows_.resize(rows * width);
  mlm_hidden_.resize(rows * width);
  for (int64_t r = 0; r < rows; ++r) {
    count = std::max(count, masked[r].count);
    std::copy_n(x() + masked[r].row * width, width, masked_rows_.data() + r * width);
  }
  absl::Status status = run().linear(context(), {.input = masked_rows_.data(),
                                                 .input_type = DataType::kFloat32,
                                                 .rows = rows,
                                                 .linear = weights_.mlm_dense.get(),
                                                 .activation = Activation::kGeluErf,
                                                 .post_norm = weights_.mlm_norm.parameters(),
                                                 .output = mlm_hidden_.data(),
                                                 .output_type = DataType::kFloat32});
  if (!status.ok()) return status;
  ids_.resize(rows * count);
  scores_.resize(rows * count);
  probabilities_.resize(rows * count);
  status = run().predict_tokens(context(), {.x = mlm_hidden_.data(),
                                            .rows = rows,
                                            .decoder = weights_.mlm_decoder,
                                            .count = count,
                                            .ids = ids_.data(),
                                            .logits = scores_.data(),
                                            .probabilities = probabilities_.data()});
  if (!status.ok()) return status;
  for (int64_t r = 0; r < rows; ++r) {
    TokenScore* out = results[masked[r].request].predictions.data() + masked[r].first;
    for (int64_t i = 0; i < masked[r].count; ++i) {
      out[i] = {ids_[r * count + i], scores_[r * count + i], probabilities_[r * count + i]};
    }
  }
  return absl::OkStatus();
}

absl::Status TextEngine::ReadPredictions(std::span<const Request> requests, std::span<Result> results) {
  masked_.clear();
  int64_t most = 1;
  for (size_t i = 0; i < requests.size() && config().masked_lm; ++i) {
    const int64_t count = std::clamp<int64_t>(requests[i].predictions, 0, config().vocabulary);
    if (count == 0) continue;
    most = std::max(most, count);
    for (const int32_t place : requests[i].masked) {
      masked_.push_back({i, offsets()[i] + place, static_cast<int64_t>(results[i].predictions.size()), count});
      results[i].predictions.resize(results[i].predictions.size() + count);
    }
  }
  const size_t step = std::min(kMaxMasked, static_cast<size_t>(std::max<int64_t>(1, kMaxScores / most)));
  for (size_t first = 0; first < masked_.size(); first += step) {
    const std::span<const Masked> some = std::span(masked_).subspan(first, std::min(step, masked_.size() - first));
    if (absl::Status status = Predict(some, results); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TextEngine::ReadOutputs(std::span<const Request> requests, std::span<Result> results) {
  std::optional<Pooling> heads_pooling;
  for (const Request& request : requests) {
    const bool pooler = request.embedding && request.pooling == Pooling::kPooler;
    if ((pooler || request.logits) && weights_.pooler != nullptr) heads_pooling = Pooling::kCls;
  }
  const absl::Status status = ReadEmbeddings(requests, results, {}, heads_pooling,
                                             [&](const float* pooled) { return ReadHeads(requests, results, pooled); });
  return status.ok() ? ReadPredictions(requests, results) : status;
}

}  // namespace lion
