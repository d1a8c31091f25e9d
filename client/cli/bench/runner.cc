#include "client/cli/bench/runner.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <queue>
#include <vector>

#include "lion/client.h"

namespace lion::bench {
namespace {

constexpr int64_t kLookNs = 100'000'000;  // how often a person's wish to stop is looked for
constexpr int64_t kRestNs = 100'000'000;
constexpr int64_t kGraceNs = 1'000'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Of the time of a call, the part that lies in the window.
double ShareWithin(int64_t from_ns, int64_t until_ns, const CallTimes& times) {
  if (times.done_ns <= from_ns || times.sent_ns >= until_ns) return 0;
  if (times.done_ns <= times.sent_ns) return 1;
  const int64_t within_ns = std::min(times.done_ns, until_ns) - std::max(times.sent_ns, from_ns);
  return static_cast<double>(within_ns) / static_cast<double>(times.done_ns - times.sent_ns);
}

int64_t RestAfter(const absl::Status& status) {
  const auto pushback = RetryPushback(status);
  if (!pushback.has_value() || pushback->count() < 0) return kRestNs;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(*pushback).count();
}

// Common to both loops: what is in flight, and the record.
class Run {
 public:
  Run(const RunLimits& limits, const RunParts& parts)
      : limits_(limits),
        parts_(parts),
        measure_from_ns_(Now() + limits.warm_up_ns),
        end_ns_(limits.duration_ns > 0 ? measure_from_ns_ + limits.duration_ns : kNever),
        window_end_ns_(end_ns_),
        record_(parts.size_count) {}

  RunRecord OpenLoop(ArrivalPlan& arrivals) {
    const int64_t start_ns = measure_from_ns_ - limits_.warm_up_ns;
    while (!AllScheduled()) {
      const int64_t due_ns = start_ns + arrivals.NextNs();
      if (!SleepUntil(std::min(due_ns, end_ns_)) || due_ns >= end_ns_) break;
      const int64_t now_ns = Now();
      const bool measured = due_ns >= measure_from_ns_;
      const bool late = now_ns >= end_ns_ && now_ns - end_ns_ >= kGraceNs;
      if (MayGo(measured, due_ns, late, limits_.max_in_flight)) Send(measured, {due_ns, now_ns, 0}, now_ns - due_ns);
    }
    return Finish();
  }

  RunRecord ClosedLoop(int64_t concurrency) {
    closed_ = true;
    for (int64_t i = 0; i < concurrency; ++i) ready_ns_.push(Now());
    while (!AllScheduled()) {
      const int64_t room_since_ns = WaitForRoom();
      const int64_t now_ns = Now();
      if (room_since_ns == kNever || now_ns >= end_ns_) break;
      const bool measured = now_ns >= measure_from_ns_;
      if (MayGo(measured, now_ns, false, concurrency)) Send(measured, {now_ns, now_ns, 0}, now_ns - room_since_ns);
    }
    return Finish();
  }

 private:
  int64_t Now() const { return parts_.clock->NowNs(); }
  int Stops() const { return parts_.stops->load(); }

  bool AllScheduled() {
    const std::lock_guard lock(mutex_);
    return limits_.calls > 0 && record_.scheduled >= limits_.calls;
  }

  // False: a person ended the run before.
  bool SleepUntil(int64_t when_ns) {
    while (Stops() == 0) {
      const int64_t now_ns = Now();
      if (now_ns >= when_ns) return true;
      parts_.clock->SleepUntil(std::min(when_ns, now_ns + kLookNs));
    }
    return false;
  }

  // Since when there has been room for a call; kNever: the run ends before there is any.
  int64_t WaitForRoom() {
    std::unique_lock lock(mutex_);
    while (Stops() == 0) {
      const int64_t now_ns = Now();
      if (now_ns >= end_ns_) break;
      if (!ready_ns_.empty() && ready_ns_.top() <= now_ns) {
        const int64_t since_ns = ready_ns_.top();
        ready_ns_.pop();
        return since_ns;
      }
      const int64_t rest_ends_ns = ready_ns_.empty() ? kNever : ready_ns_.top();
      parts_.clock->WaitUntil(changed_, lock, std::min({rest_ends_ns, end_ns_, now_ns + kLookNs}));
    }
    return kNever;
  }

  // Counts a call that is due, and says whether it is to be sent.
  bool MayGo(bool measured, int64_t due_ns, bool late, int64_t max_in_flight) {
    const std::lock_guard lock(mutex_);
    const bool crowded = in_flight_ >= max_in_flight;
    if (measured) {
      record_.AddScheduled(due_ns);
      if (late) {
        ++record_.not_sent_late;
      } else if (crowded) {
        ++record_.not_sent_in_flight;
      }
    }
    if (late || crowded) return false;
    ++in_flight_;
    ++(measured ? record_.sent : record_.warm_up_calls);
    return true;
  }

  void Send(bool measured, const CallTimes& times, int64_t lag_ns) {
    const size_t size = parts_.sizes->Next();
    const int64_t bytes = parts_.sender->Send(
        size, [this, measured, size, times](const Answer& answer) { Done(measured, size, times, answer); });
    if (!measured) return;
    const std::lock_guard lock(mutex_);
    record_.sent_bytes += bytes;
    record_.send_lag.Record(lag_ns);
  }

  void Done(bool measured, size_t size, CallTimes times, const Answer& answer) {
    times.done_ns = Now();
    const std::lock_guard lock(mutex_);
    const bool cut_off = cancelled_ && absl::IsCancelled(answer.status);
    if (measured && cut_off) {
      ++record_.cut_off;
    } else if (measured) {
      record_.AddAnswer(size, answer, times);
    }
    if (answer.status.ok()) record_.done_in_window += ShareWithin(measure_from_ns_, window_end_ns_, times);
    --in_flight_;
    if (closed_) ready_ns_.push(times.done_ns + (answer.status.ok() ? 0 : RestAfter(answer.status)));
    changed_.notify_all();
  }

  RunRecord Finish() {
    std::unique_lock lock(mutex_);
    window_end_ns_ = std::min(Now(), end_ns_);
    record_.window_ns = std::max<int64_t>(window_end_ns_ - measure_from_ns_, 0);
    record_.ended_early = Stops() > 0;
    const int patience = record_.ended_early ? 1 : 0;
    while (in_flight_ > 0) {
      if (Stops() > patience && !cancelled_) {
        cancelled_ = true;
        lock.unlock();
        parts_.sender->Cancel();
        lock.lock();
      }
      if (in_flight_ > 0) parts_.clock->WaitUntil(changed_, lock, Now() + kLookNs);
    }
    return std::move(record_);
  }

  const RunLimits& limits_;
  const RunParts& parts_;
  const int64_t measure_from_ns_;
  const int64_t end_ns_;

  bool closed_ = false;

  // Guards what follows; never held while something is sent or cancelled.
  std::mutex mutex_;
  std::condition_variable changed_;  // an answer came
  int64_t window_end_ns_;            // end_ns_ until the schedule has ended, which may be earlier
  RunRecord record_;
  int64_t in_flight_ = 0;
  bool cancelled_ = false;
  // Closed loop: one entry for each call that might be in flight and is not: from when on it may be sent.
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ready_ns_;
};

}  // namespace

RunRecord RunOpenLoop(ArrivalPlan& arrivals, const RunLimits& limits, const RunParts& parts) {
  return Run(limits, parts).OpenLoop(arrivals);
}

RunRecord RunClosedLoop(int64_t concurrency, const RunLimits& limits, const RunParts& parts) {
  return Run(limits, parts).ClosedLoop(concurrency);
}

}  // namespace lion::bench
