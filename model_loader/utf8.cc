#include "model_loader/utf8.h"

#include <algorithm>
#include <cstdio>

#include "model_loader/bytes.h"

namespace lion {
namespace {

uint8_t At(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// Bytes of the character that `text` begins with (RFC 3629, section 4); 0: none.
size_t CharacterSize(std::string_view text) {
  const uint8_t first = At(text, 0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                      : (first & 0xF0) == 0xE0         ? 3
                      : first >= 0xF0 && first <= 0xF4 ? 4
                                                       : 0;
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((At(text, i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = At(text, 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  const bool too_large = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : size;
}

}  // namespace

size_t Utf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = CharacterSize(text.substr(at));
    if (size == 0) break;
    at += size;
  }
  return at;
}

absl::Status CheckUtf8File(std::string_view path, std::string_view text) {
  const size_t at = Utf8Prefix(text);
  if (at == text.size()) return absl::OkStatus();
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  char byte[8];
  std::snprintf(byte, sizeof(byte), "0x%02x", At(text, at));
  return InvalidFile(path, ": line ", line, " is not UTF-8: byte ", byte, " begins no character");
}

}  // namespace lion
