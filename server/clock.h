// Time as a parameter, so that tests decide what time it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

#include "server/mutex.h"

namespace lion {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Monotonic nanoseconds from an arbitrary origin. All methods may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;
  // Waits until notified or until `when_ns`, which may be kNever. May return early.
  virtual void WaitUntil(CondVar& condition, Mutex& mutex, int64_t when_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

class SteadyClock : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void WaitUntil(CondVar& condition, Mutex& mutex, int64_t when_ns) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (when_ns == kNever) {
      condition.Wait(mutex);
    } else {
      condition.WaitUntil(mutex, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(when_ns)));
    }
  }
};

}  // namespace lion
