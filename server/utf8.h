// UTF-8 from strangers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lion {

// `text`, or as many of its characters as take at most `max_bytes`, and "..." after them. Cut between characters, never
// inside.
std::string CutUtf8(std::string_view text, size_t max_bytes);

// Valid UTF-8 (RFC 3629: no overlong form, no surrogate, at most U+10FFFF) without control characters (U+0000 to
// U+001F, U+007F to U+009F).
bool IsPrintableUtf8(std::string_view text);

}  // namespace lion
