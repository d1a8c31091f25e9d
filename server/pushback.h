// Refusals that say when to try again.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lion {

// The key of the payload of a RESOURCE_EXHAUSTED status: milliseconds in decimal.
inline constexpr char kRetryPushbackPayload[] = "lion/retry-pushback-ms";

// For callers who cannot know how long it will take until there is room.
inline constexpr int64_t kUnknownPushbackMs = 100;

// RESOURCE_EXHAUSTED with that payload; the message ends with the time.
absl::Status TryAgainIn(int64_t pushback_ms, absl::string_view message);

}  // namespace lion
