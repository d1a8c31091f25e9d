// UTF-8: the API takes no other text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lion {

// Where the first sequence of bytes begins that is no code point: cut off, overlong, a surrogate or past U+10FFFF.
// Nothing: all of `text` is UTF-8.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// The first byte of the code point after the one that begins at `at`, in valid UTF-8; text.size() at the end.
size_t NextCodePoint(std::string_view text, size_t at);

}  // namespace lion
