// A clock that stands still until told.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/clock.h"

namespace lion {

class FakeClock : public Clock {
 public:
  int64_t NowNs() const override {
    MutexLock lock(mutex_);
    return now_ns_;
  }

  void WaitUntil(CondVar& condition, Mutex& mutex, int64_t when_ns) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    {
      MutexLock lock(mutex_);
      if (now_ns_ >= when_ns) return;
      waiters_.push_back({&condition, &mutex});
      waiting_.NotifyAll();
    }
    condition.Wait(mutex);
    MutexLock lock(mutex_);
    std::erase_if(waiters_, [&condition](const Waiter& waiter) { return waiter.condition == &condition; });
  }

  // Sets the time and wakes everybody who waits for it.
  void AdvanceTo(int64_t now_ns) {
    std::vector<Waiter> waiters;
    {
      MutexLock lock(mutex_);
      now_ns_ = now_ns;
      waiters = waiters_;
    }
    for (const Waiter& waiter : waiters) {
      // Whoever has registered holds this mutex until its wait has begun.
      MutexLock lock(*waiter.mutex);
      waiter.condition->NotifyAll();
    }
  }

  // Blocks until some thread waits for a time.
  void AwaitWaiter() {
    MutexLock lock(mutex_);
    while (waiters_.empty()) waiting_.Wait(mutex_);
  }

 private:
  struct Waiter {
    CondVar* condition;
    Mutex* mutex;
  };
  mutable Mutex mutex_;
  CondVar waiting_;
  int64_t now_ns_ ABSL_GUARDED_BY(mutex_) = 1'000'000'000;
  std::vector<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lion
