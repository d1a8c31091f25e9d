#include "server/batch_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lion {

absl::Status BatchLimits::Validate() const {
  constexpr int64_t kMaxSpanNs = int64_t{3600} * 1'000'000'000;
  if (max_tokens < 1)
    return absl::InvalidArgumentError(absl::StrCat("max batch tokens: got ", max_tokens, ", want >= 1"));
  if (max_batch_ns < 0 || max_batch_ns > kMaxSpanNs) {
    return absl::InvalidArgumentError(absl::StrCat("max batch: got ", max_batch_ns, " ns, want 0 to one hour"));
  }
  if (max_inputs < 1)
    return absl::InvalidArgumentError(absl::StrCat("max batch inputs: got ", max_inputs, ", want >= 1"));
  if (max_wait_ns < 0 || max_wait_ns > kMaxSpanNs) {
    return absl::InvalidArgumentError(absl::StrCat("max wait: got ", max_wait_ns, " ns, want 0 to one hour"));
  }
  // Far from where sums of it could overflow.
  constexpr int64_t kMaxStepTokens = int64_t{1} << 48;
  if (priority_step_tokens < 0 || priority_step_tokens > kMaxStepTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("priority step: got ", priority_step_tokens, " tokens, want 0 to ", kMaxStepTokens));
  }
  return absl::OkStatus();
}

BatchLimits LimitsAtRate(const BatchLimits& limits, double tokens_per_ms) {
  if (limits.max_batch_ns == 0 || tokens_per_ms <= 0) return limits;
  const double tokens = tokens_per_ms * static_cast<double>(limits.max_batch_ns) / 1e6;
  const double most = std::max(tokens, static_cast<double>(kLeastBatchTokens));
  BatchLimits result = limits;
  if (most < static_cast<double>(limits.max_tokens)) result.max_tokens = static_cast<int64_t>(most);
  return result;
}

BatchPlan PlanBatch(std::span<const QueuedTask> queue, int64_t now_ns, bool flush, const BatchLimits& limits) {
  BatchPlan plan;
  plan.verdicts.assign(queue.size(), Verdict::kWaits);
  int64_t oldest_ns = kNever;
  int64_t first_deadline_ns = kNever;
  bool full = false;
  for (size_t i = 0; i < queue.size(); ++i) {
    const QueuedTask& task = queue[i];
    if (now_ns >= task.deadline_ns) {
      plan.verdicts[i] = Verdict::kExpired;
      continue;
    }
    if (task.cancelled != nullptr && task.cancelled->load(std::memory_order_relaxed)) {
      plan.verdicts[i] = Verdict::kCancelled;
      continue;
    }
    oldest_ns = std::min(oldest_ns, task.arrival_ns);
    first_deadline_ns = std::min(first_deadline_ns, task.deadline_ns);
    if (full) continue;
    const bool fits = plan.inputs < limits.max_inputs && task.tokens <= limits.max_tokens - plan.tokens;
    if (!fits && plan.inputs > 0) {
      full = true;
      continue;
    }
    plan.verdicts[i] = Verdict::kRuns;
    plan.tokens += task.tokens;
    ++plan.inputs;
    full = plan.inputs >= limits.max_inputs || plan.tokens >= limits.max_tokens;
  }
  if (plan.inputs == 0 || full || flush || now_ns - oldest_ns >= limits.max_wait_ns) return plan;

  std::replace(plan.verdicts.begin(), plan.verdicts.end(), Verdict::kRuns, Verdict::kWaits);
  plan.tokens = 0;
  plan.inputs = 0;
  plan.look_again_ns = std::min(oldest_ns + limits.max_wait_ns, first_deadline_ns);
  return plan;
}

}  // namespace lion
