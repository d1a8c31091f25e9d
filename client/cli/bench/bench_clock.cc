#include "client/cli/bench/bench_clock.h"

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>
#include <chrono>

namespace lion::bench {
namespace {

// What waking up from a sleep takes on an idle machine. Spun away, it costs at most a two-hundredth of a processor at
// 100 requests a second.
constexpr int64_t kSpinNs = 50'000;
constexpr int64_t kSecondNs = 1'000'000'000;

}  // namespace

int64_t RealClock::NowNs() const {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * kSecondNs + now.tv_nsec;
}

void RealClock::SleepUntil(int64_t when_ns) {
  // The kernel may otherwise be 50 us late on purpose, to wake several threads at once.
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL);
  static_cast<void>(slack);
  const int64_t wake_ns = when_ns - kSpinNs;
  if (NowNs() < wake_ns) {
    const timespec wake = {static_cast<time_t>(wake_ns / kSecondNs), static_cast<long>(wake_ns % kSecondNs)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) == EINTR) {
    }
  }
  while (NowNs() < when_ns) {
  }
}

void RealClock::WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, int64_t when_ns) {
  changed.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(when_ns)));
}

}  // namespace lion::bench
