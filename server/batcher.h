// Moves opaque tasks, in batches under a budget, to one consumer. Knows nothing of RPC, tensors or devices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/batch_policy.h"
#include "server/clock.h"
#include "server/fair_budget.h"
#include "server/mutex.h"
#include "server/pushback.h"

namespace lion {

class BatchTask {
 public:
  virtual ~BatchTask() = default;
  // Called once, instead of running it: DEADLINE_EXCEEDED or CANCELLED. On the batcher's thread or on one that is in
  // Reserve or Grow, with no lock of the batcher's held; must neither block nor throw.
  virtual void Drop(const absl::Status& why) = 0;
};

struct Batch {
  std::vector<std::unique_ptr<BatchTask>> tasks;
  int64_t tokens = 0;
  int64_t formed_ns = 0;
};

struct BatcherOptions {
  BatchLimits limits;
  // Tokens reserved and not yet in a batch. Too small: a burst is refused although the device could soon take it; too
  // large: callers wait behind work that will miss their deadlines, and its inputs fill the memory.
  int64_t max_queue_tokens = 131072;
};

// A bounded queue and the thread that empties it. Work is admitted before it is prepared: Reserve takes room in the
// queue, Submit puts the prepared task into it.
//
// Latency bound of a submitted task before which A tokens are served, its caller's own and what FairOrder's bound gives
// for each other caller:
//   max_wait + the rest of the running batch + (2 A / max_tokens + 1) batches
// because two batches in a row hold more than max_tokens together (and likewise of max_inputs; with max_batch_ns,
// batches are shorter, and more of them hold the same tokens). So a lone task of the highest priority, beside callers
// of lower ones, waits for the running batch and runs in the next. Where several batchers share a device turn, each
// batch may wait for one batch of every other. Room in the queue is not shared out: it is had by whoever asks first,
// also from a caller who fills it.
//
// Invariants: reserved tokens <= max_queue_tokens; every submitted task is either run or dropped, exactly once; what is
// expired or cancelled when its batch forms is never run. Do not use it for work that needs more than one consumer.
// All methods may be called from any thread, but not from `run`.
class Batcher {
 public:
  // Room in the queue. Gives itself back unless submitted; the batcher's destructor waits for all of them.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept
        : batcher_(std::exchange(other.batcher_, nullptr)), tokens_(std::exchange(other.tokens_, 0)) {}
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(batcher_, other.batcher_);
      std::swap(tokens_, other.tokens_);
      return *this;
    }
    // Without room it keeps no batcher, which may be gone.
    ~Reservation() {
      if (batcher_ != nullptr && tokens_ > 0) batcher_->Release(tokens_);
    }
    // Takes `tokens` of this one's out; at most what it holds.
    Reservation Split(int64_t tokens);
    // Takes `tokens` more, also while draining; not if it holds none. RESOURCE_EXHAUSTED as of Reserve.
    absl::Status Grow(int64_t tokens);
    int64_t tokens() const { return tokens_; }

   private:
    friend class Batcher;
    Reservation(Batcher* batcher, int64_t tokens) : batcher_(batcher), tokens_(tokens) {}
    Batcher* batcher_ = nullptr;
    int64_t tokens_ = 0;
  };

  struct Entry {
    Reservation reservation;
    uint64_t caller = 0;  // whose share of the device this takes
    int priority = 0;     // 0..kMaxPriority
    int64_t deadline_ns = kNever;
    const std::atomic<bool>* cancelled = nullptr;  // must live as long as the task
    std::unique_ptr<BatchTask> task;
  };

  using RunFunction = std::function<void(Batch)>;

  // `run` is called on the batcher's thread, one batch at a time, holding `device_turn` (null: the device is ours
  // alone). `clock` and `device_turn` must outlive the batcher.
  static absl::StatusOr<std::unique_ptr<Batcher>> Create(const BatcherOptions& options, Clock* clock,
                                                         FairBudget* device_turn, RunFunction run);
  // Drains, waits until all reservations are back and the last batch has run.
  ~Batcher();

  // `least` tokens, and beyond them up to `most` as far as that leaves half of what is free to others.
  // INVALID_ARGUMENT: more than the queue ever holds. RESOURCE_EXHAUSTED with kRetryPushbackPayload: no room now, after
  // what has expired was dropped. UNAVAILABLE: draining.
  absl::StatusOr<Reservation> Reserve(int64_t least, int64_t most);
  absl::StatusOr<Reservation> Reserve(int64_t tokens) { return Reserve(tokens, tokens); }

  // Never refuses, also while draining. Entries submitted together may share a batch even when the device is idle.
  // After std::bad_alloc nothing was submitted and `entries` is as it was.
  void Submit(std::vector<Entry>&& entries);

  // From now on Reserve refuses and nothing waits for a fuller batch. What was reserved is still served.
  void Drain();
  // True once nothing is reserved, queued or running; false when `deadline_ns` comes first.
  bool WaitIdle(int64_t deadline_ns);

  int64_t reserved_tokens() const;

 private:
  Batcher(const BatcherOptions& options, Clock* clock, FairBudget* device_turn, RunFunction run);

  // Tasks taken out of the queue under the lock. Drops them at its end, which comes after the lock's.
  struct Dropping {
    struct Dropped {
      std::unique_ptr<BatchTask> task;
      absl::Status why;
    };
    ~Dropping() {
      for (Dropped& drop : tasks) drop.task->Drop(drop.why);
    }
    std::vector<Dropped> tasks;
  };

  void Release(int64_t tokens);
  void ReleaseLocked(int64_t tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t FreeTokens() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return options_.max_queue_tokens - reserved_tokens_;
  }
  // Drops what is dead if there is no room for so many tokens. RESOURCE_EXHAUSTED: there is still none.
  absl::Status MakeRoom(int64_t tokens, Dropping* dropping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Grow(int64_t tokens);
  absl::Status QueueFull(int64_t tokens) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what is expired or cancelled.
  void DropDead(Dropping* dropping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what `plan` does not leave waiting. After std::bad_alloc nothing has changed.
  void Apply(const BatchPlan& plan, Batch* batch, Dropping* dropping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives each of the entries a turn. After std::bad_alloc none has one.
  std::vector<QueuedTask> Enter(const std::vector<Entry>& entries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: stopping, and there will be no more work.
  bool WaitForWork();
  // Empty also when there is no memory to form one.
  Batch FormBatch(Dropping* dropping);
  Batch FormBatchLocked(Dropping* dropping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();

  const BatcherOptions options_;
  Clock* const clock_;
  FairBudget* const device_turn_;
  const RunFunction run_;

  mutable Mutex mutex_;
  CondVar changed_;
  FairOrder fair_order_ ABSL_GUARDED_BY(mutex_);
  // Parallel, sorted by RunsBefore.
  std::vector<QueuedTask> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<BatchTask>> tasks_ ABSL_GUARDED_BY(mutex_);
  int64_t reserved_tokens_ ABSL_GUARDED_BY(mutex_) = 0;  // those in the queue included
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  double tokens_per_ms_ ABSL_GUARDED_BY(mutex_) = 0;  // of recent batches; 0: none has run
  std::thread thread_;
};

}  // namespace lion
