// SIGTERM and SIGINT: the first asks the server to stop, the second ends the process. What follows the first within 100
// ms is the same request: supervisors signal a process and its group. SIGHUP asks for the models to be loaded again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "server/clock.h"
#include "server/mutex.h"

namespace lion {

// One per process, made before any other thread, so that all threads inherit the blocked signals. It lives until the
// process ends: its thread waits for signals for ever.
class StopSignals {
 public:
  StopSignals();

  // Until this is called there is nothing to finish: the first signal ends the process, with exit code 0.
  void StartFinishing() { finishing_.store(true); }

  // What a SIGHUP does from now on, on a thread of its own; what came before is made up for at once. Must not block.
  // Empty: nothing. Returns once the one before is not running.
  void OnReload(std::function<void()> reload);

  // Waits for the first signal to stop until `when_ns` of the clock. True: it came.
  bool Wait(Clock& clock, int64_t when_ns);

 private:
  void Loop();
  void Reload();

  std::atomic<bool> finishing_ = false;
  Mutex mutex_;
  CondVar changed_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex reload_mutex_;
  std::function<void()> reload_ ABSL_GUARDED_BY(reload_mutex_);
  bool reload_missed_ ABSL_GUARDED_BY(reload_mutex_) = false;
};

}  // namespace lion
