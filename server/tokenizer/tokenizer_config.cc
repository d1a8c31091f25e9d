// tokenizer_config.json.
#include <cmath>

#include "model_loader/bytes.h"
#include "server/tokenizer/json_object.h"
#include "server/tokenizer/tokenizer_files.h"

namespace lion {
namespace {

// Libraries write 1e30 and the like for a tokenizer without a limit.
constexpr double kNoLength = 1e9;

std::optional<int64_t> ReadLength(const JsonObject& object, const std::string& key) {
  const nlohmann::json* value = object.Find(key);
  if (value == nullptr) return std::nullopt;
  const double length = value->is_number() ? value->get<double>() : 0;
  if (length >= kNoLength) return std::nullopt;
  if (length >= 1 && std::floor(length) == length) return static_cast<int64_t>(length);
  object.Wrong(key, "a whole number from 1");
  return std::nullopt;
}

// Written as a text or as an object.
std::optional<AddedToken> ReadToken(const JsonObject& object, const std::string& key) {
  const nlohmann::json* value = object.Find(key);
  if (value == nullptr) return std::nullopt;
  AddedToken token;
  if (value->is_object()) {
    token = ReadAddedToken(object.Object(key));
  } else if (value->is_string()) {
    token.content = value->get<std::string>();
  } else {
    object.Wrong(key, "a text or an object");
  }
  if (token.content.empty()) object.Wrong(key, "the text of a token");
  return token;
}

std::vector<AddedToken> ReadAddedTokens(const JsonObject& object) {
  std::vector<AddedToken> added;
  if (!object.Has("added_tokens_decoder")) return added;
  const JsonObject tokens = object.Object("added_tokens_decoder");
  for (const auto& [id, unused] : tokens.json().items()) {
    const JsonObject token = tokens.Object(id);
    added.push_back(ReadAddedToken(token));
    if (!token.Boolean("special").value_or(true)) token.Wrong("special", "true: text holds no tokens but special ones");
  }
  return added;
}

}  // namespace

AddedToken ReadAddedToken(const JsonObject& object) {
  AddedToken token;
  token.content = object.NeedText("content");
  if (token.content.empty()) object.Wrong("content", "the text of a token");
  token.lstrip = object.Boolean("lstrip").value_or(false);
  token.rstrip = object.Boolean("rstrip").value_or(false);
  token.single_word = object.Boolean("single_word").value_or(false);
  token.normalized = object.Boolean("normalized").value_or(false);
  return token;
}

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::string& path, const nlohmann::json& json) {
  absl::Status status;
  const JsonObject object(Concat(path, ": "), json, status);
  TokenizerConfig config;
  config.path = path;
  config.do_lower_case = object.Boolean("do_lower_case");
  config.strip_accents = object.Boolean("strip_accents");
  config.tokenize_chinese_chars = object.Boolean("tokenize_chinese_chars");
  config.model_max_length = ReadLength(object, "model_max_length");
  config.tokenizer_class = object.Text("tokenizer_class");
  config.unk_token = ReadToken(object, "unk_token");
  config.cls_token = ReadToken(object, "cls_token");
  config.sep_token = ReadToken(object, "sep_token");
  config.mask_token = ReadToken(object, "mask_token");
  config.no_mask_token = object.json().contains("mask_token") && !config.mask_token;
  config.added_tokens = ReadAddedTokens(object);
  if (!object.Boolean("do_basic_tokenize").value_or(true)) object.Wrong("do_basic_tokenize", "true");
  if (const auto* words = object.Array("never_split"); words != nullptr && !words->empty()) {
    object.Wrong("never_split", "an array of none");
  }
  if (!status.ok()) return status;
  return config;
}

}  // namespace lion
