#include "server/stop_signals.h"

#include <csignal>
#include <thread>
#include <utility>

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
  sigaddset(&set, SIGHUP);
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

void StopSignals::OnReload(std::function<void()> reload) {
  MutexLock lock(reload_mutex_);
  reload_ = std::move(reload);
  if (reload_ && std::exchange(reload_missed_, false)) reload_();
}

void StopSignals::Reload() {
  MutexLock lock(reload_mutex_);
  if (reload_) {
    LogInfo("SIGHUP: loading the models again");
    reload_();
  } else if (!std::exchange(reload_missed_, true)) {
    LogInfo("SIGHUP: the models will be loaded again once the server serves");
  }
}

void StopSignals::Loop() {
  const sigset_t set = StopSet();
  const SteadyClock clock;
  int64_t first_ns = 0;
  for (bool first = true;;) {
    int signal = 0;
    while (sigwait(&set, &signal) != 0) {
    }
    if (signal == SIGHUP) {
      if (first) Reload();
      continue;
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
    first = false;
    LogInfo(absl::StrCat(name, ": finishing what was accepted, then exit"));
    MutexLock lock(mutex_);
    requested_ = true;
    changed_.NotifyAll();
  }
}

}  // namespace lion
