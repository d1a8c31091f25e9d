// Strict JSON for files that strangers wrote. For model_loader and the tokenizer.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace lion {

// One UTF-8 JSON document. INVALID_ARGUMENT with the position for what is no JSON, for a key that stands twice in one
// object, and for nesting deeper than 32.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text);

}  // namespace lion
