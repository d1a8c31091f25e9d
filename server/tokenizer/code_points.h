// Steps through valid UTF-8, code point by code point.
#pragma once

#include <unicode/utf8.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lion {

// The code point at byte `at`, which is then that of the next one.
inline char32_t NextCode(std::string_view text, size_t& at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  UChar32 code;
  U8_NEXT_UNSAFE(bytes, at, code);
  return static_cast<char32_t>(code);
}

// The code point before byte `at`, which is then its first.
inline char32_t PreviousCode(std::string_view text, size_t& at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  UChar32 code;
  U8_PREV_UNSAFE(bytes, at, code);
  return static_cast<char32_t>(code);
}

}  // namespace lion
