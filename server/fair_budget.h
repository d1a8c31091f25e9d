// A counting semaphore with amounts that serves its waiters strictly in the order they came.
#pragma once

#include <cstdint>
#include <utility>

#include "server/mutex.h"

namespace lion {

// Bounds what is in use at once: bytes of concurrent decodes, or the one turn on the device. Because nobody overtakes,
// a large amount is never starved by small ones. An amount over the limit is granted when nothing else is in use:
// callers for whom that is too much ask limit() first. All methods may be called from any thread; outlives its grants.
class FairBudget {
 public:
  // Gives the amount back when it goes out of scope.
  class Grant {
   public:
    Grant() = default;
    Grant(Grant&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), amount_(other.amount_) {}
    Grant& operator=(Grant&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(amount_, other.amount_);
      return *this;
    }
    ~Grant() {
      if (budget_ != nullptr) budget_->Release(amount_);
    }

   private:
    friend class FairBudget;
    Grant(FairBudget* budget, int64_t amount) : budget_(budget), amount_(amount) {}
    FairBudget* budget_ = nullptr;
    int64_t amount_ = 0;
  };

  explicit FairBudget(int64_t limit) : limit_(limit) {}

  // Blocks until all who came before are served and the amount fits.
  [[nodiscard]] Grant Acquire(int64_t amount) {
    MutexLock lock(mutex_);
    const uint64_t ticket = next_ticket_++;
    while (ticket != serving_ || (in_use_ > 0 && amount > limit_ - in_use_)) changed_.Wait(mutex_);
    ++serving_;
    in_use_ += amount;
    changed_.NotifyAll();
    return Grant(this, amount);
  }

  // Acquire without waiting. False, and nothing happens: it does not fit now, or others wait.
  [[nodiscard]] bool TryAcquire(int64_t amount, Grant* grant) {
    MutexLock lock(mutex_);
    if (next_ticket_ != serving_ || (in_use_ > 0 && amount > limit_ - in_use_)) return false;
    in_use_ += amount;
    *grant = Grant(this, amount);
    return true;
  }

  int64_t limit() const { return limit_; }
  int64_t in_use() const {
    MutexLock lock(mutex_);
    return in_use_;
  }

 private:
  void Release(int64_t amount) {
    MutexLock lock(mutex_);
    in_use_ -= amount;
    changed_.NotifyAll();
  }

  const int64_t limit_;
  mutable Mutex mutex_;
  CondVar changed_;
  int64_t in_use_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t serving_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lion
