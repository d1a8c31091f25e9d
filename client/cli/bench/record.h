// What a run has seen, before anything is concluded from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/bench/answer.h"
#include "client/cli/bench/histogram.h"
#include "client/cli/bench/trend.h"

namespace lion::bench {

// When things happened to one call, on the client's clock.
struct CallTimes {
  int64_t scheduled_ns = 0;  // closed loop: when it was sent
  int64_t sent_ns = 0;
  int64_t done_ns = 0;
};

// The calls that succeeded, of one size or of several.
struct Successes {
  Histogram from_schedule;
  Histogram from_send;
  Histogram server_total;
  Histogram server_queue;
  Histogram server_preprocess;
  Histogram server_compute;
  Histogram outside_server;  // from_send less server_total: the network, gRPC on both sides, and this client
  int64_t images = 0;
  int64_t tokens = 0;
  int64_t batch_inputs = 0;  // the sum over the calls with timings
  int64_t Count() const { return from_send.count(); }
  int64_t CountWithTimings() const { return server_total.count(); }

  void Add(const Answer& answer, const CallTimes& times);
  void Merge(const Successes& other);
};

struct Failures {
  int64_t count = 0;
  absl::Status example;  // the first one
  Histogram from_send;   // until the error came
};

// Of the measured part of a run: the calls scheduled after the warm-up, whenever they were answered, unless said
// otherwise.
struct RunRecord {
  explicit RunRecord(size_t size_count) : by_size(size_count) {}

  std::vector<Successes> by_size;                 // [sizes of the mix]
  std::map<absl::StatusCode, Failures> failures;  // answered with an error
  int64_t scheduled = 0;                          // sent or not
  int64_t sent = 0;                               // answered, or cut off
  int64_t not_sent_in_flight = 0;                 // open loop: too many calls were in flight when they were due
  int64_t not_sent_late = 0;                      // open loop: the end came before this client got round to them
  int64_t cut_off = 0;                            // cancelled while in flight: a person did not want to wait
  int64_t sent_bytes = 0;
  Trend latency_trend;  // of the successes: seconds from the schedule, over the second they were scheduled at
  Histogram send_lag;   // from when a call was due (closed loop: might have been sent) until it was sent

  int64_t warm_up_calls = 0;  // sent, and in nothing above
  int64_t window_ns = 0;      // from the end of the warm-up to the end of the schedule
  bool ended_early = false;   // by a person
  // The successes in that window, the warm-up's included: each call is worth the share of its time from the sending to
  // the answer that lay in it.
  double done_in_window = 0;

  // The first and the last of those counted, in nanoseconds of the client's clock; 0 where there is none.
  int64_t first_scheduled_ns = 0;
  int64_t last_scheduled_ns = 0;
  int64_t first_success_ns = 0;
  int64_t last_success_ns = 0;

  void AddScheduled(int64_t scheduled_ns);
  void AddAnswer(size_t size, const Answer& answer, const CallTimes& times);
  Successes AllSizes() const;
  int64_t FailureCount() const;
};

}  // namespace lion::bench
