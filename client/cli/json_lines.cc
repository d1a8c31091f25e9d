#include "client/cli/json_lines.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/cli/names.h"
#include "client/cli/text.h"

namespace lion {
namespace {

// Keys in the order they are set, and floats in their shortest form.
using Json = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, int64_t, uint64_t, float>;

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json OriginJson(const BulkInput& input) {
  Json json;
  if (!input.is_text()) {
    json["file"] = input.source;
    return json;
  }
  json["index"] = input.index;
  json["source"] = input.source;
  if (input.from_file()) json["line"] = input.number;
  return json;
}

std::string ErrorJson(const BulkInput& input, const absl::Status& status) {
  Json json = OriginJson(input);
  json["error"]["code"] = absl::StatusCodeToString(status.code());
  json["error"]["message"] = std::string(status.message());
  return Dump(json);
}

void AddTokens(const BulkInput& input, const InputResult& result, Json& json) {
  json["tokens"] = result.tokens;
  if (input.is_text()) json["truncated"] = result.truncated;
}

void AppendRow(const float* row, int64_t dimensions, std::string& text) {
  text += '[';
  for (int64_t i = 0; i < dimensions; ++i) {
    if (i > 0) text += ',';
    AppendJsonFloat(row[i], text);
  }
  text += ']';
}

}  // namespace

std::string ClassifyJson(const BulkInput& input, const InputResult& result) {
  if (!result.status.ok()) return ErrorJson(input, result.status);
  Json json = OriginJson(input);
  json["scores"] = Json::array();
  for (const ClassScore& score : result.scores) {
    Json entry;
    entry["index"] = score.index;
    entry["label"] = score.label;
    entry["score"] = score.score;
    json["scores"].push_back(entry);
  }
  AddTokens(input, result, json);
  return Dump(json);
}

std::string EmbedJson(const BulkInput& input, const InputResult& result, bool per_token) {
  if (!result.status.ok()) return ErrorJson(input, result.status);
  // Written by hand: an embedding can hold 50 million numbers.
  std::string text = Dump(OriginJson(input));
  text.pop_back();
  text += ",\"embedding\":";
  text.reserve(text.size() + 12 * result.embedding.size() + 48);
  if (per_token) text += '[';
  for (int64_t row = 0; row < result.rows; ++row) {
    if (row > 0) text += ',';
    AppendRow(result.embedding.data() + row * result.dimensions, result.dimensions, text);
  }
  if (per_token) text += ']';
  Json tokens;
  AddTokens(input, result, tokens);
  return text + "," + Dump(tokens).substr(1);
}

std::string FillMaskJson(const BulkInput& input, const InputResult& result) {
  if (!result.status.ok()) return ErrorJson(input, result.status);
  Json json = OriginJson(input);
  json["masks"] = Json::array();
  for (const v1::MaskPrediction& mask : result.filled.masks()) {
    Json entry;
    entry["position"] = mask.position();
    entry["predictions"] = Json::array();
    for (const v1::TokenPrediction& token : mask.predictions()) {
      Json prediction;
      prediction["id"] = token.id();
      prediction["token"] = token.token();
      prediction["probability"] = token.probability();
      entry["predictions"].push_back(prediction);
    }
    json["masks"].push_back(entry);
  }
  AddTokens(input, result, json);
  return Dump(json);
}

std::string TokenizeJson(const BulkInput& input, const InputResult& result) {
  if (!result.status.ok()) return ErrorJson(input, result.status);
  Json json = OriginJson(input);
  json["tokens"] = Json::array();
  for (const v1::TokenizedInput::Token& token : result.tokenized.tokens()) {
    Json entry;
    entry["id"] = token.id();
    entry["text"] = token.text();
    entry["start_byte"] = token.start_byte();
    entry["end_byte"] = token.end_byte();
    entry["type_id"] = token.type_id();
    json["tokens"].push_back(entry);
  }
  return Dump(json);
}

std::string SimilarJson(const std::string& a, const std::string& b, float cosine) {
  Json json;
  json["a"] = a;
  json["b"] = b;
  json["cosine"] = cosine;
  return Dump(json);
}

std::string ModelJson(const v1::Model& model) {
  Json json;
  json["name"] = model.name();
  json["version"] = model.version();
  json["modality"] = ModalityText(model.modality());
  json["variant"] = model.variant();
  if (!model.patch_order().empty()) json["patch_order"] = model.patch_order();
  json["parameters"] = model.parameters();
  json["embedding_dimensions"] = model.embedding_dimensions();
  json["labels"] = std::vector<std::string>(model.labels().begin(), model.labels().end());
  json["tasks"] = std::vector<std::string>(model.tasks().begin(), model.tasks().end());
  json["max_tokens"] = model.max_tokens();
  json["pooling"] = PoolingText(model.pooling());
  json["normalize"] = model.normalize();
  if (model.modality() == v1::Model::MODALITY_VISION) {
    json["image_size"] = model.image_size();
    json["patch_size"] = model.patch_size();
    json["resize"] = ResizeText(model.image().resize());
    json["resize_size"] = model.image().size();
    json["crop_ratio"] = model.image().crop_ratio();
    json["image_mean"] = std::vector<float>(model.image_mean().begin(), model.image_mean().end());
    json["image_std"] = std::vector<float>(model.image_std().begin(), model.image_std().end());
    json["max_image_pixels"] = model.max_image_pixels();
  }
  json["device"] = model.device();
  json["compute_type"] = model.compute_type();
  json["weights"] = model.weights();
  json["weight_bytes"] = model.weight_bytes();
  json["bytes_per_token"] = model.bytes_per_token();
  return Dump(json);
}

}  // namespace lion
