#include "client/cli/bench/warnings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/bench/words.h"

namespace lion::bench {
namespace {

// A client that is later than both of these is a part of what it measures.
constexpr double kLateNs = 1e6;
constexpr double kLateShare = 0.05;  // of the latency

std::string RateNotKept(const BenchFlags& flags, const Summary& summary) {
  std::vector<std::string> reasons;
  if (summary.not_sent_in_flight > 0) {
    reasons.push_back(absl::StrCat(Plural(summary.not_sent_in_flight, "call"), " not sent, with ", flags.max_in_flight,
                                   " unanswered (--max-in-flight)"));
  }
  if (summary.not_sent_late > 0) {
    reasons.push_back(absl::StrCat(Plural(summary.not_sent_late, "call"), " not sent, since this client was too slow"));
  }
  if (summary.cut_off > 0) reasons.push_back(absl::StrCat(Plural(summary.cut_off, "call"), " cut off"));
  if (summary.failed > 0) reasons.push_back(absl::StrCat(Plural(summary.failed, "call"), " failed"));
  const double sent_and_done = static_cast<double>(summary.succeeded) / static_cast<double>(summary.scheduled);
  if (summary.answered < kKeptShare * sent_and_done * summary.arrived) {
    reasons.push_back("the latency grew all the time, since more came in than was done");
  }
  return absl::StrFormat("THE RATE WAS NOT KEPT: of %.4g calls a second, %.4g were answered (%.0f %%)%s%s.",
                         summary.arrived, summary.answered, 100 * summary.answered / summary.arrived,
                         reasons.empty() ? "" : ": ", absl::StrJoin(reasons, "; "));
}

// The p99 where the sample supports it, else the largest.
int64_t NearlyLargest(const LatencySummary& latency) { return latency.percentiles_ns[2].value_or(latency.max_ns); }

bool IsLate(const Summary& summary) {
  const double lag_ns = static_cast<double>(NearlyLargest(summary.send_lag));
  return summary.succeeded > 0 && lag_ns > kLateNs &&
         lag_ns > kLateShare * static_cast<double>(NearlyLargest(summary.from_schedule));
}

std::string ClientLate(bool open_loop, const LatencySummary& lag) {
  const std::string late = absl::StrFormat("%.1f ms (%s)", 1e-6 * static_cast<double>(NearlyLargest(lag)),
                                           lag.percentiles_ns[2].has_value() ? "p99" : "max");
  return absl::StrCat(
      open_loop ? "This client was late: calls left up to " : "This client was slow: a call followed an answer up to ",
      late,
      open_loop ? " after they were due, which is a part of the latencies from the schedule, and not "
                  "the server's doing."
                : " later, and as long fewer calls were in flight than asked for.",
      " Give it processors of its own, or ask for less.");
}

}  // namespace

std::vector<std::string> Warnings(const BenchFlags& flags, const Summary& summary) {
  std::vector<std::string> warnings;
  const bool open_loop = flags.rate > 0;
  if (open_loop && summary.arrived > 0 && summary.answered < kKeptShare * summary.arrived) {
    warnings.push_back(RateNotKept(flags, summary));
  }
  if (const int64_t not_sent = summary.not_sent_in_flight + summary.not_sent_late; not_sent > 0) {
    warnings.push_back(absl::StrCat("The latencies know nothing of ", Plural(not_sent, "call"),
                                    " not sent: their callers would have waited longer."));
  }
  if (IsLate(summary)) warnings.push_back(ClientLate(open_loop, summary.send_lag));
  if (summary.cut_off > 0) {
    warnings.push_back(absl::StrCat(Plural(summary.cut_off, "call"), " cut off unanswered, and in no latency."));
  }
  if (summary.ended_early) {
    warnings.push_back(absl::StrFormat("The run was ended early, after %.1f s.", summary.window_s));
  }
  return warnings;
}

}  // namespace lion::bench
