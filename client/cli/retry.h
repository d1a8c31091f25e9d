// Whether a failed call is tried again, and after how long. Pure: no clock, no sleep, no random source.
#pragma once

#include <chrono>
#include <optional>

#include "absl/status/status.h"

namespace lion {

struct RetryPolicy {
  // Calls altogether, the first included; 1: never tried again. Too many delay the news that a server is gone.
  int unavailable_attempts = 5;  // with the waits below about 1.5 s
  int busy_attempts = 12;        // RESOURCE_EXHAUSTED with a pushback: a full queue; about 30 s
  // The wait doubles from the first to the largest; each is shortened by up to half at random, so that callers who were
  // refused together do not come back together.
  std::chrono::milliseconds first_wait{100};
  std::chrono::milliseconds largest_wait{5'000};
};

// The wait before the next try after `attempt` calls (from 1), of which the last failed with `status`; nothing: give
// up. Only UNAVAILABLE and RESOURCE_EXHAUSTED with a pushback are tried again; a pushback is waited out in full, a
// negative one obeyed. `random` is in [0, 1).
std::optional<std::chrono::milliseconds> NextWait(const RetryPolicy& policy, const absl::Status& status, int attempt,
                                                  double random);

// An error that the next call would meet as well, whatever its inputs: no server, no such model, no head.
bool ConcernsEveryCall(const absl::Status& status);

}  // namespace lion
