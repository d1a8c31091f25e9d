// The tokenizer's files, each read by itself. Errors are INVALID_ARGUMENT and begin with `path`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tokenizer/tokenizer_settings.h"

namespace lion {

// Ids that a file may give, and lines of vocab.txt.
inline constexpr int64_t kMaxVocabulary = 1 << 20;

// A special token as files describe it. Only the mask token's flags matter: others are not looked for in a text.
struct AddedToken {
  std::string content;
  bool lstrip = false;       // takes white space before it
  bool rstrip = false;       // and after it
  bool single_word = false;  // is found between words alone
  bool normalized = false;   // is looked for after normalisation
};

// tokenizer_config.json. No value: it says nothing.
struct TokenizerConfig {
  std::string path;
  std::optional<bool> do_lower_case;
  std::optional<bool> strip_accents;
  std::optional<bool> tokenize_chinese_chars;
  std::optional<int64_t> model_max_length;  // a number that no text reaches counts as none
  std::optional<std::string> tokenizer_class;
  std::optional<AddedToken> unk_token, cls_token, sep_token, mask_token;
  bool no_mask_token = false;  // mask_token is null
  std::vector<AddedToken> added_tokens;
};

// `json`: an object, or null where there is no such file.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::string& path, const nlohmann::json& json);
absl::StatusOr<TokenizerSettings> ReadTokenizerJson(const std::string& path, const nlohmann::json& json,
                                                    const TokenizerConfig& config);
absl::StatusOr<TokenizerSettings> ReadVocabulary(const std::string& path, std::string_view text,
                                                 const TokenizerConfig& config);

// For the readers of one file.

class JsonObject;
// A special token as `object` describes it.
AddedToken ReadAddedToken(const JsonObject& object);
// The piece's id; of equal ones the last.
std::optional<int32_t> FindPiece(const TokenizerSettings& settings, std::string_view piece);
// Settles the mask token: the configuration names it, one of `added_tokens` may describe it.
absl::Status FindMask(const std::string& path, const TokenizerConfig& config,
                      const std::vector<AddedToken>& added_tokens, TokenizerSettings& settings);
// That all pieces together are not too much.
absl::Status CheckSize(const std::string& path, const TokenizerSettings& settings);

}  // namespace lion
