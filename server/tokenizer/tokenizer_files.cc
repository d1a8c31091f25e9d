#include "server/tokenizer/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "model_loader/bytes.h"
#include "model_loader/json_file.h"
#include "model_loader/utf8.h"
#include "server/tokenizer/word_piece.h"

namespace lion {
namespace {

// Whose tokenizers are BERT's, all but in name.
constexpr std::string_view kClasses[] = {"BertTokenizer",           "BertTokenizerFast", "DistilBertTokenizer",
                                         "DistilBertTokenizerFast", "ElectraTokenizer",  "ElectraTokenizerFast"};

// A line ends with \n or \r\n.
absl::StatusOr<std::vector<std::string>> ReadPieces(const std::string& path, std::string_view text) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (static_cast<int64_t>(pieces.size()) == kMaxVocabulary) {
      return InvalidFile(path, ": more than ", kMaxVocabulary, " lines");
    }
    pieces.emplace_back(line);
    at = end + 1;
  }
  return pieces;
}

}  // namespace

std::optional<int32_t> FindPiece(const TokenizerSettings& settings, std::string_view piece) {
  const auto found = std::find(settings.pieces.rbegin(), settings.pieces.rend(), piece);
  if (found == settings.pieces.rend() || piece.empty()) return std::nullopt;
  return static_cast<int32_t>(std::distance(found, settings.pieces.rend()) - 1);
}

absl::Status FindMask(const std::string& path, const TokenizerConfig& config,
                      const std::vector<AddedToken>& added_tokens, TokenizerSettings& settings) {
  if (config.no_mask_token) return absl::OkStatus();
  AddedToken mask = config.mask_token.value_or(AddedToken{"[MASK]"});
  const auto id = FindPiece(settings, mask.content);
  if (!id) {
    if (!config.mask_token) return absl::OkStatus();
    return InvalidFile(config.path, ": mask_token is \"", mask.content, "\", which ", path, " does not have");
  }
  for (const AddedToken& token : added_tokens) {
    if (token.content == mask.content) mask = token;
  }
  for (const auto& [flag, key] : {std::pair{mask.single_word, "single_word"}, {mask.normalized, "normalized"}}) {
    if (!flag) continue;
    return InvalidFile(path, ": the mask token \"", mask.content, "\" has ", key, " true, expected false");
  }
  settings.mask = MaskToken{*id, mask.lstrip, mask.rstrip};
  return absl::OkStatus();
}

absl::Status CheckSize(const std::string& path, const TokenizerSettings& settings) {
  size_t bytes = 0;
  for (const std::string& piece : settings.pieces) bytes += piece.size();
  if (bytes <= WordPiece::kMaxBytes) return absl::OkStatus();
  return InvalidFile(path, ": the vocabulary has ", bytes, " bytes, at most ", WordPiece::kMaxBytes, " can be held");
}

absl::StatusOr<TokenizerSettings> ReadVocabulary(const std::string& path, std::string_view text,
                                                 const TokenizerConfig& config) {
  if (config.tokenizer_class &&
      std::find(std::begin(kClasses), std::end(kClasses), *config.tokenizer_class) == std::end(kClasses)) {
    return InvalidFile(config.path, ": tokenizer_class is \"", *config.tokenizer_class,
                       "\", expected BertTokenizer or tokenizer.json");
  }
  if (auto status = CheckUtf8File(path, text); !status.ok()) return status;
  auto pieces = ReadPieces(path, text);
  if (!pieces.ok()) return pieces.status();

  TokenizerSettings settings;
  settings.pieces = std::move(*pieces);
  if (auto status = CheckSize(path, settings); !status.ok()) return status;
  settings.characters.lowercase = config.do_lower_case.value_or(true);
  settings.characters.strip_accents = config.strip_accents.value_or(settings.characters.lowercase);
  settings.characters.handle_chinese_chars = config.tokenize_chinese_chars.value_or(true);
  settings.max_tokens = config.model_max_length.value_or(0);

  struct Role {
    const std::optional<AddedToken>& token;
    const char* usual;
    int32_t& id;
  };
  for (const Role& role :
       {Role{config.unk_token, "[UNK]", settings.unknown_id}, Role{config.cls_token, "[CLS]", settings.cls_id},
        Role{config.sep_token, "[SEP]", settings.sep_id}}) {
    const std::string name = role.token ? role.token->content : role.usual;
    const auto id = FindPiece(settings, name);
    if (!id) return InvalidFile(path, ": no line is \"", name, "\", which BERT needs");
    role.id = *id;
  }
  if (auto status = FindMask(path, config, config.added_tokens, settings); !status.ok()) return status;
  return settings;
}

absl::StatusOr<TokenizerSettings> ReadTokenizerFiles(const std::string& folder) {
  using Type = nlohmann::json::value_t;
  const std::filesystem::path root(folder);
  const std::string config_path = (root / "tokenizer_config.json").string();
  const auto config_json = ReadJsonFile(config_path, Type::object);
  if (!config_json.ok()) return config_json.status();
  const auto config = ReadTokenizerConfig(config_path, *config_json);
  if (!config.ok()) return config.status();

  const std::string json_path = (root / "tokenizer.json").string();
  const auto json = ReadJsonFile(json_path, Type::object);
  if (!json.ok()) return json.status();
  if (!json->is_null()) return ReadTokenizerJson(json_path, *json, *config);

  const std::string vocabulary_path = (root / "vocab.txt").string();
  const auto vocabulary = ReadTextFile(vocabulary_path);
  if (!vocabulary.ok()) return vocabulary.status();
  if (*vocabulary) return ReadVocabulary(vocabulary_path, **vocabulary, *config);
  return absl::NotFoundError(Concat("there is neither ", json_path, " nor ", vocabulary_path));
}

}  // namespace lion
