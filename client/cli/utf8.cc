#include "client/cli/utf8.h"

#include <cstdint>

namespace lion {
namespace {

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Bytes of a sequence by its first; 0: none begins so.
size_t SequenceLength(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation, or overlong
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// What the second byte may be is narrower after four of the first bytes.
bool SecondFits(uint8_t first, uint8_t second) {
  if (first == 0xE0) return second >= 0xA0;  // else overlong
  if (first == 0xED) return second < 0xA0;   // else a surrogate
  if (first == 0xF0) return second >= 0x90;  // else overlong
  if (first == 0xF4) return second < 0x90;   // else past U+10FFFF
  return true;
}

}  // namespace

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<uint8_t>(text[at]);
    const size_t length = SequenceLength(first);
    if (length == 0 || length > text.size() - at) return at;
    for (size_t i = 1; i < length; ++i) {
      if (!IsContinuation(text[at + i])) return at;
    }
    if (length > 1 && !SecondFits(first, static_cast<uint8_t>(text[at + 1]))) return at;
    at += length;
  }
  return std::nullopt;
}

size_t NextCodePoint(std::string_view text, size_t at) {
  do ++at;
  while (at < text.size() && IsContinuation(text[at]));
  return at;
}

}  // namespace lion
