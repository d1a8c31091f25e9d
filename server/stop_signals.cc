#include "server/stop_signals.h"

#include <csignal>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "server/log.h"

namespace lion {
namespace {

constexpr int64_t kSameRequestNs = 100'000'000;

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([this] { Loop(); }).detach();
}

bool StopSignals::Wait(Clock& clock, int64_t when_ns) {
  MutexLock lock(mutex_);
  while (!requested_ && clock.NowNs() < when_ns) clock.WaitUntil(changed_, mutex_, when_ns);
  return requested_;
}

void StopSignals::Loop() {
  const sigset_t set = StopSet();
  const SteadyClock clock;
  int64_t first_ns = 0;
  for (bool first = true;; first = false) {
    int signal = 0;
    while (sigwait(&set, &signal) != 0) {
    }
    const char* name = signal == SIGTERM ? "SIGTERM" : "SIGINT";
    if (!finishing_.load()) {
      LogInfo(absl::StrCat(name, " before serving: exit"));
      _exit(0);
    }
    const int64_t now_ns = clock.NowNs();
    if (first) first_ns = now_ns;
    if (!first && now_ns - first_ns < kSameRequestNs) {
      LogInfo(absl::StrCat(name, " within ", kSameRequestNs / 1'000'000, " ms of the first: the same request"));
      continue;
    }
    if (!first) {
      LogWarning(absl::StrCat(name, " again: exit at once"));
      _exit(1);
    }
    LogInfo(absl::StrCat(name, ": finishing what was accepted, then exit"));
    MutexLock lock(mutex_);
    requested_ = true;
    changed_.NotifyAll();
  }
}

}  // namespace lion
