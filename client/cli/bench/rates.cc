#include "client/cli/bench/rates.h"

#include <algorithm>

namespace lion::bench {
namespace {

double Seconds(int64_t ns) { return 1e-9 * static_cast<double>(ns); }

double SuccessCount(const RunRecord& record) { return static_cast<double>(record.AllSizes().Count()); }

}  // namespace

Rates OpenLoopRates(const RunRecord& record) {
  Rates rates;
  const double calls = static_cast<double>(record.scheduled);
  const double span_s = Seconds(record.last_scheduled_ns - record.first_scheduled_ns);
  if (record.scheduled < 2 || span_s <= 0) return rates;
  rates.arrived = (calls - 1) / span_s;
  rates.seconds = calls / rates.arrived;
  const double successes = SuccessCount(record);
  const bool fell_behind = record.latency_trend.Grows() || record.not_sent_in_flight > 0 || record.not_sent_late > 0;
  if (fell_behind && successes > 1) {
    const double answers_span_s = Seconds(record.last_success_ns - record.first_success_ns);
    rates.seconds = std::max(rates.seconds, answers_span_s * successes / (successes - 1));
  }
  rates.answered = successes / rates.seconds;
  return rates;
}

Rates ClosedLoopRates(const RunRecord& record) {
  Rates rates;
  rates.seconds = Seconds(record.window_ns);
  double successes = record.done_in_window;
  if (record.warm_up_calls == 0 || record.window_ns == 0) {
    rates.seconds = std::max(rates.seconds, Seconds(record.last_success_ns - record.first_scheduled_ns));
    successes = SuccessCount(record);
  }
  if (record.scheduled == 0 || rates.seconds <= 0) return {};
  rates.arrived = static_cast<double>(record.scheduled) / rates.seconds;
  rates.answered = successes / rates.seconds;
  return rates;
}

}  // namespace lion::bench
