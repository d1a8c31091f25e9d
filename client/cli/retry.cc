#include "client/cli/retry.h"

#include <algorithm>
#include <cmath>

#include "lion/client.h"

namespace lion {

using std::chrono::milliseconds;

std::optional<milliseconds> NextWait(const RetryPolicy& policy, const absl::Status& status, int attempt,
                                     double random) {
  const std::optional<milliseconds> pushback = RetryPushback(status);
  int attempts = 1;
  if (absl::IsUnavailable(status)) attempts = policy.unavailable_attempts;
  if (absl::IsResourceExhausted(status) && pushback.has_value()) attempts = policy.busy_attempts;
  if (attempt >= attempts) return std::nullopt;
  if (pushback.has_value() && pushback->count() < 0) return std::nullopt;

  const double doubled_ms = static_cast<double>(policy.first_wait.count()) * std::exp2(attempt - 1);
  const double full_ms = std::min(doubled_ms, static_cast<double>(policy.largest_wait.count()));
  const milliseconds wait(std::llround(full_ms * (1.0 - 0.5 * random)));
  return std::max(wait, pushback.value_or(milliseconds(0)));
}

bool ConcernsEveryCall(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
      return true;
    default:
      return false;
  }
}

}  // namespace lion
