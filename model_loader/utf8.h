// UTF-8 (RFC 3629): what the API's strings must be, or clients cannot read the message they stand in. For
// model_loader and the tokenizer.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace lion {

// Bytes from the start of `text` that are whole UTF-8 characters; text.size() where all are. Overlong forms, surrogates
// and code points over U+10FFFF are none.
size_t Utf8Prefix(std::string_view text);

// INVALID_ARGUMENT with the path, the line (from 1) and the byte where the file's text is no UTF-8.
absl::Status CheckUtf8File(std::string_view path, std::string_view text);

}  // namespace lion
