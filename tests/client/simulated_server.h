// A server of known behaviour in virtual time: no thread, no sleep, and the exact truth about every call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "client/cli/bench/bench_clock.h"
#include "client/cli/bench/sender.h"

namespace lion::bench {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1'000 * kMs;

// Calls are served in the order of their coming by `slots` workers, each of which is busy with one call for the time
// that `service_ns` says. Time passes only while the load test sleeps or waits, and, where `send_ns` says so, while it
// sends.
class SimulatedServer : public BenchClock, public Sender {
 public:
  explicit SimulatedServer(int slots) {
    for (int i = 0; i < slots; ++i) free_ns_.push(0);
  }

  std::function<int64_t(int64_t call)> service_ns = [](int64_t) { return 10 * kMs; };
  std::function<absl::Status(int64_t call)> status = [](int64_t) { return absl::OkStatus(); };
  int64_t send_ns = 0;
  // No work is begun in this time: what comes waits until its end.
  int64_t stall_from_ns = 0;
  int64_t stall_until_ns = 0;
  int64_t tokens = 50;  // of each image, of which there is one a call

  // The truth.
  std::vector<int64_t> latencies_ns;  // of the successes: from the sending to the answer
  std::vector<size_t> sizes;
  int64_t calls = 0;
  int64_t in_flight = 0;
  int64_t most_in_flight = 0;
  int64_t cancelled = 0;

  // At `when_ns`, on the way there.
  void At(int64_t when_ns, std::function<void()> what) { events_.emplace(when_ns, std::move(what)); }

  int64_t NowNs() const override { return now_ns_; }

  void SleepUntil(int64_t when_ns) override {
    while (RunNext(when_ns)) {
    }
    now_ns_ = std::max(now_ns_, when_ns);
  }

  void WaitUntil(std::condition_variable&, std::unique_lock<std::mutex>& lock, int64_t when_ns) override {
    lock.unlock();
    if (!RunNext(when_ns)) now_ns_ = std::max(now_ns_, when_ns);
    lock.lock();
  }

  int64_t Send(size_t size, std::function<void(Answer)> done) override {
    const int64_t sent_ns = now_ns_;
    const int64_t call = calls++;
    sizes.push_back(size);
    most_in_flight = std::max(most_in_flight, ++in_flight);
    int64_t start_ns = std::max(sent_ns, free_ns_.top());
    if (start_ns >= stall_from_ns && start_ns < stall_until_ns) start_ns = stall_until_ns;
    const int64_t service = service_ns(call);
    const int64_t end_ns = start_ns + service;
    free_ns_.pop();
    free_ns_.push(end_ns);
    Answer answer;
    answer.status = status(call);
    if (answer.status.ok()) {
      answer.images = 1;
      answer.tokens = tokens;
      answer.timing = {end_ns - sent_ns, start_ns - sent_ns, 0, service, 4};
      latencies_ns.push_back(end_ns - sent_ns);
    }
    running_.emplace(end_ns, std::pair(std::move(answer), std::move(done)));
    SleepUntil(sent_ns + send_ns);
    return 1000;
  }

  void Cancel() override {
    auto ended = std::move(running_);
    running_.clear();
    for (auto& [end_ns, call] : ended) {
      ++cancelled;
      --in_flight;
      Answer answer;
      answer.status = absl::CancelledError("cancelled");
      call.second(answer);
    }
  }

 private:
  // The next thing to happen, unless that is after `when_ns`.
  bool RunNext(int64_t when_ns) {
    const bool event = !events_.empty() && (running_.empty() || events_.begin()->first <= running_.begin()->first);
    if (event) {
      if (events_.begin()->first > when_ns) return false;
      auto next = events_.extract(events_.begin());
      now_ns_ = std::max(now_ns_, next.key());
      next.mapped()();
      return true;
    }
    if (running_.empty() || running_.begin()->first > when_ns) return false;
    auto next = running_.extract(running_.begin());
    now_ns_ = std::max(now_ns_, next.key());
    --in_flight;
    next.mapped().second(next.mapped().first);
    return true;
  }

  int64_t now_ns_ = 1'000 * kSecond;
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> free_ns_;  // when each worker is free
  std::multimap<int64_t, std::pair<Answer, std::function<void(Answer)>>> running_;
  std::multimap<int64_t, std::function<void()>> events_;
};

}  // namespace lion::bench
