// Runs a load test: decides when to send, sends, and records what comes back.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/cli/bench/arrivals.h"
#include "client/cli/bench/bench_clock.h"
#include "client/cli/bench/record.h"
#include "client/cli/bench/sender.h"
#include "client/cli/bench/size_mix.h"

namespace lion::bench {

struct RunLimits {
  int64_t warm_up_ns = 0;   // calls due before this has passed are sent, and not counted
  int64_t duration_ns = 0;  // of the schedule, after the warm-up; 0: `calls` ends it
  int64_t calls = 0;        // counted ones; 0: `duration_ns` ends the run
  // Open loop: a call that is due while so many are unanswered is not sent, and counted as such. It is never sent later
  // instead, which would hide that the server fell behind. Too small refuses what the server could have queued; too
  // large lets an overloaded server's queue grow into the memory of both.
  int64_t max_in_flight = 1000;
};

// What a run is made of. All must outlive it.
struct RunParts {
  SizeDraw* sizes;
  size_t size_count;
  BenchClock* clock;
  Sender* sender;
  // Raised by a person, from any thread: the first time ends the schedule, the next one cancels what is still in
  // flight. Looked at every 100 ms.
  const std::atomic<int>* stops;
};

// Sends each call when it is due by `arrivals`, whatever has become of those before. The calling thread does nothing
// else. Where it falls behind, it catches up without a pause: the lag is recorded, and is part of the latencies from
// the schedule. What it has not sent a second after the end of the schedule is counted as not sent. Returns when all
// calls are done.
RunRecord RunOpenLoop(ArrivalPlan& arrivals, const RunLimits& limits, const RunParts& parts);

// Keeps `concurrency` calls in flight: an answer makes room for the next call. After an error the room stays empty for
// the server's pushback, or 100 ms, so that an unreachable server is not called in a tight loop. Returns when all calls
// are done.
RunRecord RunClosedLoop(int64_t concurrency, const RunLimits& limits, const RunParts& parts);

}  // namespace lion::bench
