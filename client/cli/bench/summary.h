// What a run says about the server, and how far it is to be trusted. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/bench/bench.h"
#include "client/cli/bench/percentiles.h"
#include "client/cli/bench/record.h"
#include "client/cli/bench/size_mix.h"

namespace lion::bench {

struct LatencySummary {
  int64_t count = 0;  // 0: the rest means nothing
  double mean_ns = 0;
  std::array<std::optional<int64_t>, kPercentiles.size()> percentiles_ns;  // nothing: the sample does not support it
  int64_t max_ns = 0;
};

struct SizeSummary {
  SizeShare size;
  double tokens_per_image = 0;
  LatencySummary latency;  // open loop: from the schedule; closed loop: from the sending
  LatencySummary server_total;
};

struct FailureSummary {
  absl::Status example;      // the first one of its code
  LatencySummary from_send;  // until the error came; its count is that of the failures
};

struct Summary {
  // Of the counted calls.
  int64_t scheduled = 0;
  int64_t sent = 0;
  int64_t succeeded = 0;
  int64_t failed = 0;
  int64_t not_sent_in_flight = 0;
  int64_t not_sent_late = 0;
  int64_t cut_off = 0;
  int64_t warm_up_calls = 0;
  double window_s = 0;
  bool ended_early = false;

  // Per second: see rates.h.
  double arrived = 0;
  double answered = 0;
  double images = 0;
  double tokens = 0;
  double sent_bytes = 0;               // of requests, without gRPC's own
  std::optional<double> batch_inputs;  // the mean size of the batch that a call was part of

  LatencySummary from_schedule;
  LatencySummary from_send;
  LatencySummary server_total;
  LatencySummary server_queue;
  LatencySummary server_preprocess;
  LatencySummary server_compute;
  LatencySummary outside_server;
  LatencySummary send_lag;

  std::vector<SizeSummary> sizes;
  std::vector<FailureSummary> failures;  // the most frequent code first
  std::vector<std::string> warnings;
};

LatencySummary Summarize(const Histogram& histogram);
Summary Summarize(const BenchFlags& flags, const std::vector<SizeShare>& mix, const RunRecord& record);

}  // namespace lion::bench
