// The threads that decode images or tokenize texts, fairly between calls and within a budget of memory.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/clock.h"
#include "server/fair_budget.h"
#include "server/mutex.h"
#include "server/prepare_queue.h"

namespace lion {

struct PreparePoolOptions {
  int threads = 1;  // >= 1
  // Work that waits, in the kind's unit. Too small: bursts are refused; too large: callers wait for what will miss
  // their deadlines. A single input always fits while no other waits.
  int64_t max_queue_work = int64_t{1} << 30;
  PrepareKind kind = kImageKind;
};

// Runs the jobs in PrepareQueue's order. The first in that order starts when a thread is free and its memory fits into
// what the running ones leave; it is never passed over for one behind it, but a newcomer may come before it. Latency
// of a small input of a new call, with its memory at hand: the rest of the shortest job that is running; where the
// memory is short, of all that are running (FairBudget grants even more than its limit once nothing else is in use).
// What is cancelled or expired is dropped when it is next, or when its room is needed. All methods may be called from
// any thread.
class PreparePool {
 public:
  // `bytes` is for this pool alone; null: memory is no matter. It and `clock` outlive the pool. Throws
  // std::system_error when a thread cannot be started.
  PreparePool(const PreparePoolOptions& options, Clock* clock, FairBudget* bytes);
  // Runs what is queued, then joins.
  ~PreparePool();

  // All of one call's jobs or none, whose `run` is then not called. Never blocks. INVALID_ARGUMENT: several, that
  // together never fit. RESOURCE_EXHAUSTED with kRetryPushbackPayload: no room now, after what is dead was dropped. The
  // jobs' `run` must not throw; after std::bad_alloc from here none is called.
  absl::Status Submit(std::vector<PrepareJob> jobs, int priority);

  int64_t waiting_work() const;

 private:
  // Jobs taken out of the queue under the lock. Tells them at its end, which comes after the lock's.
  struct Dropping {
    ~Dropping() { Run(); }
    void Run() {
      for (PrepareQueue::Dropped& drop : jobs) drop.job.run(drop.why);
      jobs.clear();
    }
    std::vector<PrepareQueue::Dropped> jobs;
  };
  // What a thread does next: at most one job, with its memory.
  struct Turn {
    Dropping dropping;
    PrepareJob job;
    FairBudget::Grant memory;
  };

  void Start();
  void Stop();
  // False: stopping, and nothing is left.
  bool Next(Turn* turn);
  void Loop();
  absl::Status QueueFull(int64_t work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PreparePoolOptions options_;
  Clock* const clock_;
  FairBudget* const bytes_;

  mutable Mutex mutex_;
  CondVar changed_;
  PrepareQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  double work_per_ms_ ABSL_GUARDED_BY(mutex_) = 0;  // of one thread, lately; 0: nothing was prepared yet
  std::vector<std::thread> threads_;
};

}  // namespace lion
