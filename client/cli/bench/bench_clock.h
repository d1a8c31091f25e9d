// Time as a parameter, so that tests run whole load tests in virtual time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace lion::bench {

// Monotonic nanoseconds from an arbitrary origin. All methods may be called from any thread.
class BenchClock {
 public:
  virtual ~BenchClock() = default;
  virtual int64_t NowNs() const = 0;
  // As precisely as can be; at once where `when_ns` has passed.
  virtual void SleepUntil(int64_t when_ns) = 0;
  // Until notified or until `when_ns`. May return early.
  virtual void WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, int64_t when_ns) = 0;
};

class RealClock : public BenchClock {
 public:
  int64_t NowNs() const override;
  // Sleeps until shortly before, and spins for the rest. Sets the timer slack of the calling thread to its least.
  void SleepUntil(int64_t when_ns) override;
  void WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, int64_t when_ns) override;
};

}  // namespace lion::bench
