// Small files beside a checkpoint. Private to model_loader.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "model_loader/json.h"

namespace lion {

// The whole file; no value where it is absent.
absl::StatusOr<std::optional<std::string>> ReadTextFile(const std::string& path);

// One document by the rules of ParseJson; null where the file is absent. Errors name the path.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path);

}  // namespace lion
