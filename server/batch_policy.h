// Which waiting tasks form the next batch: a pure function of the queue, the time and the limits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "server/clock.h"
#include "server/fair_order.h"

namespace lion {

inline constexpr int kMaxPriority = 9;
// Enough rows for the matrix products to be worth reading the weights.
inline constexpr int64_t kLeastBatchTokens = 512;

struct BatchLimits {
  // Tokens of one batch. Too small: the device works on short products; too large: everybody waits for long batches.
  // A task larger than this runs alone.
  int64_t max_tokens = 8192;
  // How long a batch may take, by the rate of recent ones; it then has fewer tokens than max_tokens, but not fewer than
  // kLeastBatchTokens. Too small: short products; too large: on a slow device everybody waits long for a caller who
  // sends a lot. 0: max_tokens alone.
  int64_t max_batch_ns = 0;
  // Tasks of one batch.
  int64_t max_inputs = 1024;
  // How long an idle device waits for a fuller batch, from the oldest task's arrival. 0: it never waits, batches form
  // while it is busy.
  int64_t max_wait_ns = 0;
  // The head start, in tokens, that one level of priority is worth (see FairOrder). Too small: urgent tasks wait behind
  // large ones of lower priority; too large: what is not urgent waits the longer for a caller who sends a lot of what
  // is.
  int64_t priority_step_tokens = 4 * 8192;

  absl::Status Validate() const;
};

// The limits for a device that computes `tokens_per_ms`; 0: not known yet.
BatchLimits LimitsAtRate(const BatchLimits& limits, double tokens_per_ms);

// What the policy knows of a waiting task.
struct QueuedTask {
  int64_t tokens = 0;
  FairOrder::Place place;
  int64_t arrival_ns = 0;
  int64_t deadline_ns = kNever;                  // at this time it is too late
  const std::atomic<bool>* cancelled = nullptr;  // null: cannot be
};

// True when `a` runs before `b`. FIFO between equals as long as the queue's sort is stable.
inline bool RunsBefore(const QueuedTask& a, const QueuedTask& b) { return a.place.order < b.place.order; }

enum class Verdict : uint8_t { kWaits, kRuns, kExpired, kCancelled };

struct BatchPlan {
  std::vector<Verdict> verdicts;   // one per task of the queue
  int64_t tokens = 0;              // of those that run
  int64_t inputs = 0;              // those that run; 0: no batch now
  int64_t look_again_ns = kNever;  // with no batch: when time alone changes the answer
};

// `queue` is sorted by RunsBefore. The batch is the longest prefix of what is neither expired nor cancelled that fits
// the limits, so nobody overtakes to fill a gap; a first task over the budget runs alone. `flush`: do not wait for
// more.
BatchPlan PlanBatch(std::span<const QueuedTask> queue, int64_t now_ns, bool flush, const BatchLimits& limits);

}  // namespace lion
