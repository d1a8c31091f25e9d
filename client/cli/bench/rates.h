// How fast calls came and how fast they were answered. Pure.
#pragma once

#include "client/cli/bench/record.h"

namespace lion::bench {

struct Rates {
  double arrived = 0;   // calls per second
  double answered = 0;  // successes per second
  double seconds = 0;   // the time that `answered` refers to; 0: no rate can be given
};

// Open loop. n calls that were due from the first to the last stand for n / (n - 1) times that span, which is also the
// time of the answers as long as the server keeps up, however long each takes: counting what was answered before the
// end, or dividing by the time until the last answer, would take a slow server for one that falls behind. Where the
// latency grew all the time, or calls were not sent, it is n / (n - 1) times the span from the first success to the
// last, if that is longer.
Rates OpenLoopRates(const RunRecord& record);

// Closed loop. A warm-up leaves every place taken: what was done in the window, by the calls of either, is then counted
// over the window. Without one the places begin empty, and what was sent in the window is counted over the time until
// they are empty again: from the first call sent to the last success, and at least the window.
Rates ClosedLoopRates(const RunRecord& record);

}  // namespace lion::bench
