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

Json ErrorJson(const std::string& file, const absl::Status& status) {
  Json json;
  json["file"] = file;
  json["error"]["code"] = absl::StatusCodeToString(status.code());
  json["error"]["message"] = std::string(status.message());
  return json;
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

std::string ClassifyJson(const std::string& file, const ImageResult& result) {
  if (!result.status.ok()) return Dump(ErrorJson(file, result.status));
  Json json;
  json["file"] = file;
  json["scores"] = Json::array();
  for (const ClassScore& score : result.scores) {
    Json entry;
    entry["index"] = score.index;
    entry["label"] = score.label;
    entry["score"] = score.score;
    json["scores"].push_back(entry);
  }
  json["tokens"] = result.tokens;
  return Dump(json);
}

std::string EmbedJson(const std::string& file, const ImageResult& result, bool per_token) {
  if (!result.status.ok()) return Dump(ErrorJson(file, result.status));
  // Written by hand: an embedding can hold 50 million numbers.
  std::string text = "{\"file\":" + Dump(Json(file)) + ",\"embedding\":";
  text.reserve(text.size() + 12 * result.embedding.size() + 32);
  if (per_token) text += '[';
  for (int64_t row = 0; row < result.rows; ++row) {
    if (row > 0) text += ',';
    AppendRow(result.embedding.data() + row * result.dimensions, result.dimensions, text);
  }
  if (per_token) text += ']';
  return text + ",\"tokens\":" + std::to_string(result.tokens) + "}";
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
