// What the tokenizer's files say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tokenizer/characters.h"

namespace lion {

struct MaskToken {
  int32_t id = 0;
  bool lstrip = false;  // white space before it counts as part of it
  bool rstrip = false;  // and after it
};

struct TokenizerSettings {
  std::vector<std::string> pieces;       // [vocabulary], by id; empty: there is no such id
  std::string continuing_prefix = "##";  // of pieces that stand inside a word
  int64_t max_word_code_points = 100;    // a longer word is unknown
  CharacterSettings characters;
  int32_t unknown_id = 0;
  int32_t cls_id = 0;
  int32_t sep_id = 0;
  std::optional<MaskToken> mask;
  int64_t max_tokens = 0;  // 0: the files name none
};

// The files of `folder`, by the rules of Tokenizer::Load.
absl::StatusOr<TokenizerSettings> ReadTokenizerFiles(const std::string& folder);

}  // namespace lion
