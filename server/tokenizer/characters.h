// What BERT's normalisation makes of one character, by the Unicode version of the ICU library that is linked.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"

struct UNormalizer2;

namespace lion {

struct CharacterSettings {
  bool clean_text = true;  // U+0000, U+FFFD and control, format and private-use characters but \t \n \r are dropped
  bool handle_chinese_chars = true;  // each is a word of its own
  bool strip_accents = true;         // canonical decomposition, of which nonspacing marks are dropped
  bool lowercase = true;             // one by one, without context or locale
};

enum class CharacterKind : uint8_t {
  kWord,      // part of a word
  kIsolated,  // a word of its own: punctuation and Chinese characters
  kSpace,     // between words
};

// Immutable: any thread may call any method.
class Characters {
 public:
  // No character decomposes into more.
  static constexpr int kMaxDecomposed = 4;

  struct Part {
    char32_t code = 0;
    CharacterKind kind = CharacterKind::kWord;
    uint8_t combining_class = 0;  // of the decomposed character, where there is decomposition; otherwise 0
    bool nonspacing = false;      // to be dropped
  };
  // What a character becomes. All parts, also those to be dropped, as canonical order is a matter of all.
  struct Parts {
    int count = 0;  // 0: the character is cleaned away
    std::array<Part, kMaxDecomposed> parts;
  };

  // INTERNAL: ICU finds its data nowhere.
  static absl::StatusOr<Characters> Create(const CharacterSettings& settings);

  Parts Decompose(char32_t code) const;

 private:
  Characters(const CharacterSettings& settings, const UNormalizer2* decomposition)
      : settings_(settings), decomposition_(decomposition) {}

  void Add(char32_t code, bool chinese, Parts& parts) const;

  CharacterSettings settings_;
  const UNormalizer2* decomposition_;  // ICU's, for ever
};

}  // namespace lion
