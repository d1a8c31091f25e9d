// Small files whose bytes are secrets.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lion {

// At most 1 MiB. `flag` is what names the file in errors, which are FAILED_PRECONDITION.
absl::StatusOr<std::string> ReadSecretFile(const std::string& flag, const std::string& path);

}  // namespace lion
