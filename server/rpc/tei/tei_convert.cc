#include "server/rpc/tei/tei_convert.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/reply_values.h"
#include "server/text_preparer.h"

namespace lion {
namespace {

absl::Status NotForModel(const ModelService& model, std::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("the model '", model.info().name, "' ", absl::string_view(why.data(), why.size())));
}

absl::Status CheckTexts(const ModelService& model) {
  if (model.engine().config().modality != Modality::kText) return NotForModel(model, "takes images, and not texts");
  if (model.tokenizer() == nullptr) return NotForModel(model, absl::StrCat("has no ", kNoTokenizer));
  return absl::OkStatus();
}

absl::Status CheckNotEmpty(std::string_view text, const char* field) {
  if (!text.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("`", field, "` cannot be empty"));
}

template <class Request>
absl::Status CheckPrompt(const Request& request) {
  if (request.prompt_name().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("`prompt_name` is set, but the models here have no prompts: want it in `inputs`");
}

// As the request says, or, where it leaves long texts to be refused, as the server was started.
template <class Request>
absl::Status ConvertTruncation(const Request& request, const ModelService& model, InferenceCall* call) {
  call->text.truncation = model.options().truncation;
  switch (request.truncation_direction()) {
    case tei::v1::TRUNCATION_DIRECTION_RIGHT:
      if (request.truncate()) call->text.truncation = TextTruncation::kEnd;
      return absl::OkStatus();
    case tei::v1::TRUNCATION_DIRECTION_LEFT:
      if (request.truncate()) call->text.truncation = TextTruncation::kStart;
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat("`truncation_direction` is ", int{request.truncation_direction()},
                                                     ", want 0 (right) or 1 (left)"));
  }
}

void AddText(std::string_view first, std::optional<std::string_view> second, InferenceCall* call) {
  call->inputs.emplace_back().text = TextOrPair{first, second};
}

// Of requests with one text.
template <class Request>
absl::Status ConvertOneText(const Request& request, const ModelService& model, InferenceCall* call) {
  if (absl::Status status = CheckTexts(model); !status.ok()) return status;
  if (absl::Status status = CheckNotEmpty(request.inputs(), "inputs"); !status.ok()) return status;
  if (absl::Status status = ConvertTruncation(request, model, call); !status.ok()) return status;
  AddText(request.inputs(), std::nullopt, call);
  return absl::OkStatus();
}

absl::Status WantClasses(const ModelService& model, InferenceCall* call) {
  const int64_t classes = model.engine().config().classes;
  if (classes == 0) return NotForModel(model, "has no classification head");
  call->logits = true;
  call->class_scores = classes;
  return absl::OkStatus();
}

template <class Request>
void FillPredictions(const Request& request, const ModelService& model, InferenceReply* reply,
                     tei::v1::PredictResponse* response) {
  const ModelConfig& config = model.engine().config();
  std::vector<float>& scores = reply->results[0].result.logits;
  const std::vector<uint32_t> order = HighestClasses(scores, 0);
  if (!request.raw_scores() && !config.regression) Softmax(scores);
  for (const uint32_t index : order) {
    tei::v1::Prediction* const prediction = response->add_predictions();
    prediction->set_score(scores[index]);
    prediction->set_label(LabelOf(config, index));
  }
}

// All bytes but those that continue a character.
int64_t CountOf(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
}

uint32_t Bounded(int64_t value) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

absl::Status ConvertTei(const tei::v1::EmbedRequest& request, const ModelService& model, InferenceCall* call) {
  const ModelConfig& config = model.engine().config();
  if (absl::Status status = CheckPrompt(request); !status.ok()) return status;
  if (absl::Status status = ConvertOneText(request, model, call); !status.ok()) return status;
  if (request.has_dimensions() && (request.dimensions() == 0 || request.dimensions() > config.width)) {
    return absl::InvalidArgumentError(
        absl::StrCat("`dimensions` is ", request.dimensions(), ", want 1 to ", config.width));
  }
  call->embedding = true;
  call->pooling = config.pooling;
  return absl::OkStatus();
}

absl::Status ConvertTei(const tei::v1::EmbedAllRequest& request, const ModelService& model, InferenceCall* call) {
  if (absl::Status status = CheckPrompt(request); !status.ok()) return status;
  call->embedding = true;
  call->pooling = Pooling::kNone;
  return ConvertOneText(request, model, call);
}

absl::Status ConvertTei(const tei::v1::PredictRequest& request, const ModelService& model, InferenceCall* call) {
  if (absl::Status status = WantClasses(model, call); !status.ok()) return status;
  return ConvertOneText(request, model, call);
}

absl::Status ConvertTei(const tei::v1::PredictPairRequest& request, const ModelService& model, InferenceCall* call) {
  if (absl::Status status = CheckTexts(model); !status.ok()) return status;
  if (absl::Status status = WantClasses(model, call); !status.ok()) return status;
  if (request.inputs_size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("`inputs` has ", request.inputs_size(), " texts, want 2"));
  }
  if (absl::Status status = CheckNotEmpty(request.inputs(0), "inputs"); !status.ok()) return status;
  AddText(request.inputs(0), request.inputs(1), call);
  return ConvertTruncation(request, model, call);
}

absl::Status ConvertTei(const tei::v1::RerankRequest& request, const ModelService& model, InferenceCall* call) {
  if (absl::Status status = CheckTexts(model); !status.ok()) return status;
  if (model.engine().config().classes != 1) {
    return NotForModel(model, "does not rank: want a classification head of one class");
  }
  if (absl::Status status = CheckNotEmpty(request.query(), "query"); !status.ok()) return status;
  if (absl::Status status = model.CheckInputCount(request.texts_size()); !status.ok()) return status;
  for (const std::string& text : request.texts()) AddText(request.query(), text, call);
  if (absl::Status status = WantClasses(model, call); !status.ok()) return status;
  return ConvertTruncation(request, model, call);
}

absl::Status ConvertTei(const tei::v1::EncodeRequest& request, const ModelService& model, InferenceCall* call) {
  if (absl::Status status = CheckTexts(model); !status.ok()) return status;
  if (absl::Status status = CheckPrompt(request); !status.ok()) return status;
  if (absl::Status status = CheckNotEmpty(request.inputs(), "inputs"); !status.ok()) return status;
  call->encoding = true;
  call->text.special_tokens = request.add_special_tokens();
  AddText(request.inputs(), std::nullopt, call);
  return absl::OkStatus();
}

void FillTei(const tei::v1::EmbedRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::EmbedResponse* response) {
  std::vector<float>& values = reply->results[0].result.embedding;
  FinishEmbedding(model.engine().config(), request.dimensions(), !request.has_normalize() || request.normalize(),
                  &values);
  response->mutable_embeddings()->Add(values.begin(), values.end());
}

void FillTei(const tei::v1::EmbedAllRequest& /*request*/, const ModelService& model, InferenceReply* reply,
             tei::v1::EmbedAllResponse* response) {
  const Result& result = reply->results[0].result;
  const int64_t width = model.engine().config().width;
  for (int64_t row = 0; row < result.rows; ++row) {
    const auto begin = result.embedding.begin() + row * width;
    response->add_token_embeddings()->mutable_embeddings()->Add(begin, begin + width);
  }
}

void FillTei(const tei::v1::PredictRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::PredictResponse* response) {
  FillPredictions(request, model, reply, response);
}

void FillTei(const tei::v1::PredictPairRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::PredictResponse* response) {
  FillPredictions(request, model, reply, response);
}

void FillTei(const tei::v1::RerankRequest& request, const ModelService& /*model*/, InferenceReply* reply,
             tei::v1::RerankResponse* response) {
  const std::vector<InputReply>& results = reply->results;
  const auto logit = [&results](size_t index) { return results[index].result.logits[0]; };
  std::vector<size_t> order(results.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logit(a) > logit(b); });
  for (const size_t index : order) {
    tei::v1::Rank* const rank = response->add_ranks();
    rank->set_index(static_cast<uint32_t>(index));
    if (request.return_text()) rank->set_text(request.texts(static_cast<int>(index)));
    rank->set_score(request.raw_scores() ? logit(index)
                                         : static_cast<float>(1 / (1 + std::exp(-double{logit(index)}))));
  }
}

void FillTei(const tei::v1::EncodeRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::EncodeResponse* response) {
  const Encoding& encoding = reply->results[0].encoding;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const ByteRange& range = encoding.offsets[i];
    tei::v1::SimpleToken* const token = response->add_tokens();
    token->set_id(static_cast<uint32_t>(encoding.ids[i]));
    token->set_special(range.begin == range.end);
    if (token->special()) {
      token->set_text(std::string(model.tokenizer()->TokenText(encoding.ids[i])));
      continue;
    }
    token->set_text(request.inputs().substr(range.begin, range.end - range.begin));
    token->set_start(range.begin);
    token->set_stop(range.end);
  }
}

int64_t CountCharacters(const tei::v1::EmbedRequest& request) { return CountOf(request.inputs()); }
int64_t CountCharacters(const tei::v1::EmbedAllRequest& request) { return CountOf(request.inputs()); }
int64_t CountCharacters(const tei::v1::PredictRequest& request) { return CountOf(request.inputs()); }
int64_t CountCharacters(const tei::v1::EncodeRequest& request) { return CountOf(request.inputs()); }
int64_t CountCharacters(const tei::v1::PredictPairRequest& request) {
  int64_t count = 0;
  for (const std::string& text : request.inputs()) count += CountOf(text);
  return count;
}
int64_t CountCharacters(const tei::v1::RerankRequest& request) {
  int64_t count = 0;
  for (const std::string& text : request.texts()) count += CountOf(request.query()) + CountOf(text);
  return count;
}

tei::v1::InfoResponse DescribeTei(const ModelService& model, const std::string& version) {
  const ModelConfig& config = model.engine().config();
  tei::v1::InfoResponse out;
  out.set_version(version);
  out.set_model_id(model.info().name);
  out.set_model_dtype(std::string(ComputeTypeName(model.engine().compute_type())));
  out.set_model_type(config.classes == 0   ? tei::v1::MODEL_TYPE_EMBEDDING
                     : config.classes == 1 ? tei::v1::MODEL_TYPE_RERANKER
                                           : tei::v1::MODEL_TYPE_CLASSIFIER);
  out.set_max_input_length(Bounded(model.options().max_input_tokens));
  out.set_max_batch_tokens(Bounded(model.options().max_batch_tokens));
  out.set_max_batch_requests(Bounded(model.options().max_batch_inputs));
  out.set_max_client_batch_size(Bounded(model.options().max_inputs_per_call));
  return out;
}

}  // namespace lion
