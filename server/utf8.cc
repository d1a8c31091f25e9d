#include "server/utf8.h"

#include <bit>
#include <cstdint>

namespace lion {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::string CutUtf8(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  while (end > 0 && IsContinuation(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

bool IsPrintableUtf8(std::string_view text) {
  // The least code point for each number of bytes: a smaller one is an overlong form.
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i]);
    const int ones = std::countl_one(first);
    const size_t bytes = ones == 0 ? 1 : static_cast<size_t>(ones);
    if (ones == 1 || ones > 4 || bytes > text.size() - i) return false;
    uint32_t code = ones == 0 ? first : first & (0x7fu >> ones);
    for (size_t k = 1; k < bytes; ++k) {
      if (!IsContinuation(text[i + k])) return false;
      code = code << 6 | (static_cast<uint8_t>(text[i + k]) & 0x3f);
    }
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    if (code < kLeast[bytes] || code > 0x10ffff || surrogate || control) return false;
    i += bytes;
  }
  return true;
}

}  // namespace lion
