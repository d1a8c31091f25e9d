// Small files beside a checkpoint. For model_loader and the tokenizer.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "model_loader/json.h"

namespace lion {

// The whole file; no value where it is absent.
absl::StatusOr<std::optional<std::string>> ReadTextFile(const std::string& path);

// One document of the type `expected` (object or array) by the rules of ParseJson; null where the file is absent, which
// a document that is null does not pass for. Errors name the path.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path, nlohmann::json::value_t expected);

}  // namespace lion
