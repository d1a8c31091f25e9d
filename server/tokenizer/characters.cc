#include "server/tokenizer/characters.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include "model_loader/bytes.h"

namespace lion {
namespace {

bool IsCleanedAway(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  if (code == 0 || code == 0xFFFD) return true;
  return (U_GET_GC_MASK(static_cast<UChar32>(code)) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

// BERT's own list of blocks. Hangul and the Japanese syllabaries are written in words.
bool IsChinese(char32_t code) {
  if (code < 0x3400) return false;
  return (code >= 0x4E00 && code <= 0x9FFF) || code <= 0x4DBF || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0x2F800 && code <= 0x2FA1F);
}

// ASCII's symbols count, such as $ and +, beyond it only what Unicode calls punctuation.
bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
  }
  return (U_GET_GC_MASK(static_cast<UChar32>(code)) & U_GC_P_MASK) != 0;
}

}  // namespace

absl::StatusOr<Characters> Characters::Create(const CharacterSettings& settings) {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* decomposition = unorm2_getNFDInstance(&error);
  if (U_FAILURE(error)) return absl::InternalError(Concat("ICU: no decomposition: ", u_errorName(error)));
  return Characters(settings, decomposition);
}

void Characters::Add(char32_t code, bool chinese, Parts& parts) const {
  Part& part = parts.parts[static_cast<size_t>(parts.count++)];
  const auto c = static_cast<UChar32>(code);
  if (settings_.strip_accents) {
    part.combining_class = unorm2_getCombiningClass(decomposition_, c);
    part.nonspacing = u_charType(c) == U_NON_SPACING_MARK;
  }
  part.code = settings_.lowercase ? static_cast<char32_t>(u_tolower(c)) : code;
  part.kind = chinese                    ? CharacterKind::kIsolated
              : u_isUWhiteSpace(c)       ? CharacterKind::kSpace
              : IsPunctuation(part.code) ? CharacterKind::kIsolated
                                         : CharacterKind::kWord;
}

Characters::Parts Characters::Decompose(char32_t code) const {
  Parts parts;
  if (settings_.clean_text && IsCleanedAway(code)) return parts;
  const bool chinese = settings_.handle_chinese_chars && IsChinese(code);
  const auto c = static_cast<UChar32>(code);
  if (settings_.strip_accents) {
    UChar decomposed[2 * kMaxDecomposed];
    UErrorCode error = U_ZERO_ERROR;
    const int32_t size = unorm2_getDecomposition(decomposition_, c, decomposed, std::size(decomposed), &error);
    if (U_SUCCESS(error) && size > 0) {
      for (int32_t i = 0; i < size;) {
        UChar32 part;
        U16_NEXT(decomposed, i, size, part);
        Add(static_cast<char32_t>(part), chinese, parts);
      }
      return parts;
    }
  }
  Add(code, chinese, parts);
  // The one character whose lower case is two, whatever the language: an i with a dot and a dot above.
  constexpr char32_t kDottedCapitalI = 0x130, kDotAbove = 0x307;
  if (settings_.lowercase && code == kDottedCapitalI) Add(kDotAbove, false, parts);
  return parts;
}

}  // namespace lion
