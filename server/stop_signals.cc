#include "server/stop_signals.h"

#include <csignal>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "server/log.h"

namespace lion {
namespace {

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
  for (bool first = true;; first = false) {
    int signal = 0;
    while (sigwait(&set, &signal) != 0) {
    }
    const char* name = signal == SIGTERM ? "SIGTERM" : "SIGINT";
    if (!finishing_.load()) {
      LogInfo(absl::StrCat(name, " before serving: exit"));
      _exit(0);
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
