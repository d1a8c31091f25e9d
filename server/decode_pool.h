// The threads that decode images, fairly between calls and within a budget of memory.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/clock.h"
#include "server/decode_queue.h"
#include "server/fair_budget.h"
#include "server/mutex.h"

namespace lion {

struct DecodePoolOptions {
  int threads = 1;  // >= 1
  // Pixels of work waiting to be decoded. Too small: bursts of photographs are refused; too large: callers wait for
  // decodes that will miss their deadlines. A single image always fits while no other waits.
  int64_t max_queue_pixels = int64_t{1} << 30;
};

// Runs the jobs in DecodeQueue's order. The first in that order starts when a thread is free and its memory fits into
// what the running decodes leave; it is never passed over for one behind it, but a newcomer may come before it. Latency
// of a small image of a new call, with its memory at hand: the rest of the shortest decode that is running; where the
// memory is short, of all that are running (FairBudget grants even more than its limit once nothing else is in use).
// What is cancelled or expired is dropped when it is next, or when its room is needed. All methods may be called from
// any thread.
class DecodePool {
 public:
  // `bytes` is for this pool alone. It and `clock` outlive the pool. Throws std::system_error when a thread cannot be
  // started.
  DecodePool(const DecodePoolOptions& options, Clock* clock, FairBudget* bytes);
  // Runs what is queued, then joins.
  ~DecodePool();

  // All of one call's jobs or none, whose `run` is then not called. Never blocks. INVALID_ARGUMENT: several, that
  // together never fit. RESOURCE_EXHAUSTED with kRetryPushbackPayload: no room now, after what is dead was dropped.
  absl::Status Submit(std::vector<DecodeJob> jobs, int priority);

  // Of work that waits.
  int64_t waiting_pixels() const;

 private:
  // What a thread does next: at most one job to decode, with its memory.
  struct Turn {
    std::vector<DecodeQueue::Dropped> dropped;
    DecodeJob job;
    FairBudget::Grant memory;
  };

  void Start();
  void Stop();
  // False: stopping, and nothing is left.
  bool Next(Turn* turn);
  void Loop();
  absl::Status QueueFull(int64_t pixels) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DecodePoolOptions options_;
  Clock* const clock_;
  FairBudget* const bytes_;

  mutable Mutex mutex_;
  CondVar changed_;
  DecodeQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  double pixels_per_ms_ ABSL_GUARDED_BY(mutex_) = 0;  // of one thread, lately; 0: nothing was decoded yet
  std::vector<std::thread> threads_;
};

}  // namespace lion
