// tokenizer.json, where it describes BERT's tokenizer.
#include <tuple>
#include <utility>

#include "model_loader/bytes.h"
#include "server/tokenizer/json_object.h"
#include "server/tokenizer/tokenizer_files.h"

namespace lion {
namespace {

// A word's memory, and what the longest word that is not unknown costs.
constexpr int64_t kMaxWord = 1000;
constexpr int64_t kMaxId = kMaxVocabulary - 1;

// Gives the id its piece. A fault if it has another.
void AddPiece(const JsonObject& object, int64_t id, const std::string& piece, TokenizerSettings& settings) {
  const auto index = static_cast<size_t>(id);
  if (index >= settings.pieces.size()) settings.pieces.resize(index + 1);
  std::string& place = settings.pieces[index];
  if (!place.empty() && place != piece) {
    object.Fault(Concat("id ", id, " is that of \"", place, "\" and of \"", piece, "\""));
  }
  place = piece;
}

void ReadModel(const JsonObject& model, TokenizerSettings& settings) {
  if (model.Has("type")) model.Expect("type", "WordPiece");
  model.AllowOnly({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  settings.continuing_prefix = model.NeedText("continuing_subword_prefix");
  settings.max_word_code_points = model.NeedInteger("max_input_chars_per_word", kMaxWord);
  const JsonObject words = model.Object("vocab");
  for (const auto& [piece, id] : words.json().items()) {
    AddPiece(words, words.NeedInteger(piece, kMaxId), piece, settings);
    if (!words.status().ok()) return;
  }
  const std::string unknown = model.NeedText("unk_token");
  const auto id = FindPiece(settings, unknown);
  if (!id) model.Wrong("unk_token", "a word of model.vocab");
  settings.unknown_id = id.value_or(0);
}

void ReadNormalizer(const JsonObject& normalizer, CharacterSettings& characters) {
  normalizer.Expect("type", "BertNormalizer");
  normalizer.AllowOnly({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  characters.clean_text = normalizer.NeedBoolean("clean_text");
  characters.handle_chinese_chars = normalizer.NeedBoolean("handle_chinese_chars");
  characters.lowercase = normalizer.NeedBoolean("lowercase");
  characters.strip_accents = normalizer.Boolean("strip_accents").value_or(characters.lowercase);
}

void ReadPreTokenizer(const JsonObject& pre_tokenizer) {
  pre_tokenizer.Expect("type", "BertPreTokenizer");
  pre_tokenizer.AllowOnly({"type"});
}

std::vector<AddedToken> ReadAddedTokens(const JsonObject& root, TokenizerSettings& settings) {
  std::vector<AddedToken> tokens;
  const nlohmann::json* list = root.Array("added_tokens");
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const JsonObject object = root.Item("added_tokens", i);
    object.AllowOnly({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    tokens.push_back(ReadAddedToken(object));
    if (!object.NeedBoolean("special")) object.Wrong("special", "true: text holds no tokens but special ones");
    const int64_t id = object.NeedInteger("id", kMaxId);
    if (!object.status().ok()) return {};
    AddPiece(object, id, tokens.back().content, settings);
  }
  return tokens;
}

// The special token of this name, which the vocabulary must have under this id.
int32_t SpecialId(const JsonObject& object, const std::string& name, const nlohmann::json& id,
                  const TokenizerSettings& settings) {
  if (id.is_number_unsigned() && id.get<uint64_t>() < settings.pieces.size() && !name.empty() &&
      settings.pieces[id.get<size_t>()] == name) {
    return id.get<int32_t>();
  }
  object.Fault(Concat("\"", name, "\" has id ", id.dump(), ", which is not its id in the vocabulary"));
  return 0;
}

int32_t ReadBertProcessing(const JsonObject& object, const std::string& key, const TokenizerSettings& settings) {
  const nlohmann::json* pair = object.Array(key);
  if (pair != nullptr && pair->size() == 2 && (*pair)[0].is_string()) {
    return SpecialId(object, (*pair)[0].get<std::string>(), (*pair)[1], settings);
  }
  object.Wrong(key, "a token and its id");
  return 0;
}

// The name of the special token that stands at `index` of a template; empty: none does.
std::string SpecialName(const nlohmann::json& list, size_t index) {
  const auto pointer = nlohmann::json::json_pointer(Concat("/", index, "/SpecialToken/id"));
  return list.contains(pointer) && list[pointer].is_string() ? list[pointer].get<std::string>() : std::string();
}

void ReadTemplate(const JsonObject& object, TokenizerSettings& settings) {
  object.AllowOnly({"type", "single", "pair", "special_tokens"});
  const auto special = [](const std::string& name, int type_id) {
    return nlohmann::json{{"SpecialToken", {{"id", name}, {"type_id", type_id}}}};
  };
  const auto text = [](const char* name, int type_id) {
    return nlohmann::json{{"Sequence", {{"id", name}, {"type_id", type_id}}}};
  };
  const nlohmann::json* single = object.Array("single");
  const std::string cls = single == nullptr ? "" : SpecialName(*single, 0);
  const std::string sep = single == nullptr ? "" : SpecialName(*single, 2);
  nlohmann::json expected = nlohmann::json::array({special(cls, 0), text("A", 0), special(sep, 0)});
  if (single == nullptr || *single != expected) object.Wrong("single", "BERT's: [CLS] A [SEP], all of type 0");
  expected.push_back(text("B", 1));
  expected.push_back(special(sep, 1));
  const nlohmann::json* pair = object.Array("pair");
  if (pair == nullptr || *pair != expected) {
    object.Wrong("pair", "BERT's: [CLS] A [SEP] of type 0, then B [SEP] of type 1");
  }
  const JsonObject tokens = object.Object("special_tokens");
  for (const auto& [name, id] :
       {std::pair<const std::string&, int32_t&>{cls, settings.cls_id}, {sep, settings.sep_id}}) {
    const JsonObject token = tokens.Object(name);
    const nlohmann::json* ids = token.Array("ids");
    if (ids == nullptr || ids->size() != 1) {
      token.Wrong("ids", "one id");
    } else {
      id = SpecialId(token, name, (*ids)[0], settings);
    }
  }
}

void ReadPostProcessor(const JsonObject& object, TokenizerSettings& settings) {
  const std::string type = object.NeedText("type");
  if (type == "TemplateProcessing") {
    ReadTemplate(object, settings);
  } else if (type == "BertProcessing") {
    object.AllowOnly({"type", "cls", "sep"});
    settings.cls_id = ReadBertProcessing(object, "cls", settings);
    settings.sep_id = ReadBertProcessing(object, "sep", settings);
  } else {
    object.Wrong("type", "TemplateProcessing or BertProcessing");
  }
}

// tokenizer.json decides, but what tokenizer_config.json says too must be the same.
void CompareWithConfig(const JsonObject& normalizer, const TokenizerConfig& config) {
  for (const auto& [key, config_key, said] :
       {std::tuple{"lowercase", "do_lower_case", config.do_lower_case},
        {"strip_accents", "strip_accents", config.strip_accents},
        {"handle_chinese_chars", "tokenize_chinese_chars", config.tokenize_chinese_chars}}) {
    const auto here = normalizer.Boolean(key);
    if (here && said && *here != *said) {
      normalizer.Wrong(key, Concat(*said ? "true" : "false", " as ", config.path, " has it in ", config_key));
    }
  }
}

}  // namespace

absl::StatusOr<TokenizerSettings> ReadTokenizerJson(const std::string& path, const nlohmann::json& json,
                                                    const TokenizerConfig& config) {
  absl::Status status;
  const JsonObject root(Concat(path, ": "), json, status);
  root.AllowOnly({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                  "decoder", "model"});
  if (root.Has("version")) root.Expect("version", "1.0");
  TokenizerSettings settings;
  const JsonObject normalizer = root.Object("normalizer");
  ReadNormalizer(normalizer, settings.characters);
  CompareWithConfig(normalizer, config);
  ReadPreTokenizer(root.Object("pre_tokenizer"));
  ReadModel(root.Object("model"), settings);
  const std::vector<AddedToken> added_tokens = ReadAddedTokens(root, settings);
  ReadPostProcessor(root.Object("post_processor"), settings);
  if (config.model_max_length) {
    settings.max_tokens = *config.model_max_length;
  } else if (root.Has("truncation")) {
    settings.max_tokens = root.Object("truncation").NeedInteger("max_length", INT64_MAX);
  }
  if (!status.ok()) return status;
  if (auto size = CheckSize(path, settings); !size.ok()) return size;
  if (auto mask = FindMask(path, config, added_tokens, settings); !mask.ok()) return mask;
  return settings;
}

}  // namespace lion
