// SIGTERM and SIGINT: the first asks the server to stop, the second ends the process. What follows the first within 100
// ms is the same request: supervisors signal a process and its group.
#pragma once

#include <atomic>
#include <cstdint>

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

  // Waits for the first signal until `when_ns` of the clock. True: it came.
  bool Wait(Clock& clock, int64_t when_ns);

 private:
  void Loop();

  std::atomic<bool> finishing_ = false;
  Mutex mutex_;
  CondVar changed_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lion
