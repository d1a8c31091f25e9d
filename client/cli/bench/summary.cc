#include "client/cli/bench/summary.h"

#include <algorithm>

#include "client/cli/bench/rates.h"
#include "client/cli/bench/warnings.h"

namespace lion::bench {

LatencySummary Summarize(const Histogram& histogram) {
  LatencySummary summary;
  summary.count = histogram.count();
  summary.mean_ns = histogram.mean_ns();
  summary.max_ns = histogram.max_ns();
  for (size_t i = 0; i < kPercentiles.size(); ++i) summary.percentiles_ns[i] = ValueAt(kPercentiles[i], histogram);
  return summary;
}

Summary Summarize(const BenchFlags& flags, const std::vector<SizeShare>& mix, const RunRecord& record) {
  Summary summary;
  const bool open_loop = flags.rate > 0;
  const Successes all = record.AllSizes();
  summary.scheduled = record.scheduled;
  summary.sent = record.sent;
  summary.succeeded = all.Count();
  summary.failed = record.FailureCount();
  summary.not_sent_in_flight = record.not_sent_in_flight;
  summary.not_sent_late = record.not_sent_late;
  summary.cut_off = record.cut_off;
  summary.warm_up_calls = record.warm_up_calls;
  summary.window_s = 1e-9 * static_cast<double>(record.window_ns);
  summary.ended_early = record.ended_early;

  const Rates rates = open_loop ? OpenLoopRates(record) : ClosedLoopRates(record);
  summary.arrived = rates.arrived;
  summary.answered = rates.answered;
  if (summary.succeeded > 0) {
    const double rate_of_one = rates.answered / static_cast<double>(summary.succeeded);
    summary.images = static_cast<double>(all.images) * rate_of_one;
    summary.tokens = static_cast<double>(all.tokens) * rate_of_one;
  }
  if (rates.seconds > 0) summary.sent_bytes = static_cast<double>(record.sent_bytes) / rates.seconds;
  if (all.CountWithTimings() > 0) {
    summary.batch_inputs = static_cast<double>(all.batch_inputs) / static_cast<double>(all.CountWithTimings());
  }

  summary.from_schedule = Summarize(all.from_schedule);
  summary.from_send = Summarize(all.from_send);
  summary.server_total = Summarize(all.server_total);
  summary.server_queue = Summarize(all.server_queue);
  summary.server_preprocess = Summarize(all.server_preprocess);
  summary.server_compute = Summarize(all.server_compute);
  summary.outside_server = Summarize(all.outside_server);
  summary.send_lag = Summarize(record.send_lag);
  for (size_t i = 0; i < mix.size(); ++i) {
    const Successes& size = record.by_size[i];
    const double images = static_cast<double>(std::max<int64_t>(size.images, 1));
    summary.sizes.push_back({mix[i], static_cast<double>(size.tokens) / images, Summarize(size.from_schedule),
                             Summarize(size.server_total)});
  }
  for (const auto& [code, failures] : record.failures) {
    summary.failures.push_back({failures.example, Summarize(failures.from_send)});
  }
  std::stable_sort(
      summary.failures.begin(), summary.failures.end(),
      [](const FailureSummary& a, const FailureSummary& b) { return a.from_send.count > b.from_send.count; });
  summary.warnings = Warnings(flags, summary);
  return summary;
}

}  // namespace lion::bench
