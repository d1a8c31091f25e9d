#include "server/rpc/inference/infer_outputs.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/inference/model_tensors.h"
#include "server/rpc/reply_values.h"
#include "server/utf8.h"

namespace lion {
namespace {

constexpr size_t kShownBytes = 100;
constexpr int64_t kMostClasses = int64_t{1} << 31;

absl::Status OfOutput(const std::string& name, const std::string& wrong) {
  return absl::InvalidArgumentError(absl::StrCat("output '", CutUtf8(name, kShownBytes), "': ", wrong));
}

bool IsOfClasses(const std::string& name) { return name == tensor::kLogits || name == tensor::kProbabilities; }
bool IsOfMasks(const std::string& name) {
  return name == tensor::kTokenIds || name == tensor::kTokens || name == tensor::kScores;
}

bool Wants(const std::vector<WantedOutput>& outputs, bool (*of)(const std::string&)) {
  return std::any_of(outputs.begin(), outputs.end(), [of](const WantedOutput& one) { return of(one.name); });
}
bool IsEmbeddings(const std::string& name) { return name == tensor::kEmbeddings; }

// Of the protocol: its length, then itself.
void AppendBytes(const std::string& element, std::string* raw) {
  const auto length = static_cast<uint32_t>(element.size());
  raw->append(reinterpret_cast<const char*>(&length), sizeof(length));
  raw->append(element);
}

template <class Value>
void AppendValue(Value value, std::string* raw) {
  raw->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendValues(std::span<const float> values, std::string* raw) {
  raw->append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

// With as many digits as tell it from every other float.
std::string ScoreText(float score) {
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), score).ptr};
}

// What outputs are made of: the results, which are changed on the way.
struct Source {
  const ModelConfig& config;
  const Tokenizer* tokenizer;
  const InferOptions& options;
  std::vector<InputReply>& results;
};
using Shape = std::vector<int64_t>;  // without the batch

Shape FillEmbeddings(const Source& from, std::string* raw) {
  Shape shape;
  for (InputReply& input : from.results) {
    std::vector<float>& values = input.result.embedding;
    const int64_t kept = FinishEmbedding(from.config, from.options.dimensions, from.options.normalize, &values);
    AppendValues(values, raw);
    shape = from.options.pooling == Pooling::kNone ? Shape{input.result.rows, kept} : Shape{kept};
  }
  return shape;
}

Shape FillClasses(const WantedOutput& wanted, const Source& from, std::string* raw) {
  auto count = static_cast<size_t>(from.config.classes);
  for (const InputReply& input : from.results) {
    std::vector<float> values = input.result.logits;
    std::vector<uint32_t> order;
    if (wanted.classification > 0) order = HighestClasses(values, static_cast<uint32_t>(wanted.classification));
    if (wanted.name == tensor::kProbabilities) Softmax(values);
    if (wanted.classification == 0) {
      AppendValues(values, raw);
      continue;
    }
    count = order.size();
    for (const uint32_t index : order) {
      std::string text = absl::StrCat(ScoreText(values[index]), ":", index);
      if (index < from.config.labels.size()) absl::StrAppend(&text, ":", from.config.labels[index]);
      AppendBytes(text, raw);
    }
  }
  return {static_cast<int64_t>(count)};
}

Shape FillPredictions(const std::string& name, const Source& from, std::string* raw) {
  size_t count = 0;
  for (const InputReply& input : from.results) {
    count = input.result.predictions.size();
    for (const TokenScore& one : input.result.predictions) {
      if (name == tensor::kTokenIds) AppendValue(int64_t{one.id}, raw);
      if (name == tensor::kScores) AppendValue(one.probability, raw);
      if (name == tensor::kTokens) AppendBytes(std::string(from.tokenizer->TokenText(one.id)), raw);
    }
  }
  return {static_cast<int64_t>(count)};
}

Shape FillOne(const WantedOutput& wanted, const Source& from, std::string* raw) {
  if (wanted.name == tensor::kEmbeddings) return FillEmbeddings(from, raw);
  if (IsOfClasses(wanted.name)) return FillClasses(wanted, from, raw);
  if (IsOfMasks(wanted.name)) return FillPredictions(wanted.name, from, raw);
  for (const InputReply& input : from.results) AppendValue(input.tokens, raw);
  return {1};
}

}  // namespace

absl::StatusOr<std::vector<WantedOutput>> ReadOutputs(const inference::ModelInferRequest& request,
                                                      const ModelService& model) {
  const std::vector<TensorSpec> specs = OutputsOf(model);
  std::vector<WantedOutput> outputs;
  if (request.outputs_size() == 0) {
    for (const TensorSpec& spec : specs) {
      if (!spec.named_only) outputs.push_back({spec.name, spec.datatype});
    }
    return outputs;
  }
  for (const auto& requested : request.outputs()) {
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&requested](const TensorSpec& one) { return one.name == requested.name(); });
    if (spec == specs.end()) {
      return OfOutput(requested.name(), absl::StrCat("the model '", model.info().name, "' has ", NamesOf(specs)));
    }
    const auto is_twice = [&spec](const WantedOutput& other) { return other.name == spec->name; };
    if (std::any_of(outputs.begin(), outputs.end(), is_twice)) {
      return OfOutput(requested.name(), "it is asked for twice, want once");
    }
    absl::StatusOr<std::optional<int64_t>> classes =
        ReadInteger(requested.parameters(), "classification", kMostClasses);
    if (!classes.ok()) return OfOutput(requested.name(), std::string(classes.status().message()));
    WantedOutput wanted = {spec->name, spec->datatype, classes->value_or(0)};
    if (wanted.classification > 0) {
      if (!IsOfClasses(wanted.name)) {
        return OfOutput(wanted.name, "classification goes with 'logits' and 'probabilities', and with no other output");
      }
      wanted.datatype = "BYTES";
    }
    outputs.push_back(std::move(wanted));
  }
  return outputs;
}

absl::Status WantOutputs(const std::vector<WantedOutput>& outputs, const InferOptions& options,
                         const ModelService& model, InferenceCall* call) {
  const ModelConfig& config = model.engine().config();
  call->embedding = Wants(outputs, IsEmbeddings);
  call->pooling = options.pooling.value_or(config.pooling);
  if (call->embedding && options.pooling == Pooling::kNone && call->inputs.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter 'pooling': 'none' gives a row for each token, want a "
                     "batch of 1, got ",
                     call->inputs.size()));
  }
  if (Wants(outputs, IsOfClasses)) {
    call->logits = true;
    call->class_scores = config.classes;
  }
  if (Wants(outputs, IsOfMasks)) call->predictions = options.predictions;
  return absl::OkStatus();
}

absl::Status FillOutputs(const std::vector<WantedOutput>& outputs, const InferOptions& options,
                         const ModelService& model, std::vector<InputReply> results,
                         inference::ModelInferResponse* response) {
  if (Wants(outputs, IsOfMasks)) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].masked.size() == 1) continue;
      return OfInput(
          i, absl::InvalidArgumentError(absl::StrCat("it has ", results[i].masked.size(),
                                                     " mask tokens, want one for the outputs "
                                                     "token_ids, tokens and scores; lion.v1's FillMask takes more")));
    }
  }
  const Source from = {model.engine().config(), model.tokenizer(), options, results};
  for (const WantedOutput& wanted : outputs) {
    inference::ModelInferResponse::InferOutputTensor* const out = response->add_outputs();
    out->set_name(wanted.name);
    out->set_datatype(wanted.datatype);
    const Shape shape = FillOne(wanted, from, response->add_raw_output_contents());
    out->add_shape(static_cast<int64_t>(results.size()));
    out->mutable_shape()->Add(shape.begin(), shape.end());
  }
  return absl::OkStatus();
}

}  // namespace lion
