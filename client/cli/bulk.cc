#include "client/cli/bulk.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"

namespace lion {
namespace {

// Consecutive inputs that one worker handles.
struct Group {
  std::vector<BulkInput> inputs;
  bool done = false;
  std::vector<InputResult> results;  // one per input once done
};

int64_t SizeOf(const BulkInput& input) {
  if (input.is_text()) return static_cast<int64_t>(input.value.ByteSizeLong());
  std::error_code error;
  const auto size = std::filesystem::file_size(input.source, error);
  return error ? 0 : static_cast<int64_t>(size);  // pipes, and files that are not there
}

// Worth trying with fewer inputs: one of them, or their sum, was what the server refused.
bool MaySucceedInParts(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || (absl::IsResourceExhausted(status) && !RetryPushback(status).has_value());
}

class BulkRun {
 public:
  BulkRun(InputSource& source, const BulkOptions& options, Transport& transport, const SleepFunction& sleep)
      : options_(options), transport_(transport), sleep_(sleep), source_(source) {}

  BulkSummary Run(const DeliverResult& deliver) {
    std::vector<std::thread> workers;
    const size_t most = std::max(options_.max_calls, 1);
    const size_t wanted = std::min(most, source_.total().value_or(most));
    for (size_t i = 0; i < wanted; ++i) workers.emplace_back([this, i] { Work(static_cast<uint32_t>(i)); });
    if (wanted == 0) exhausted_ = true;
    BulkSummary summary;
    Deliver(deliver, summary);
    for (std::thread& worker : workers) worker.join();
    return summary;
  }

 private:
  void Work(uint32_t seed) {
    std::minstd_rand random(seed + 1);
    while (Group* group = TakeGroup()) {
      std::vector<InputResult> results = Process(*group, random);
      const std::lock_guard lock(mutex_);
      group->results = std::move(results);
      group->done = true;
      changed_.notify_all();
    }
  }

  // The next inputs, once there is room for their results; null: there are none, or the run has stopped.
  Group* TakeGroup() {
    const std::lock_guard source_lock(source_mutex_);  // until the group has its place in the order
    {
      std::unique_lock lock(mutex_);
      const size_t room = 2 * static_cast<size_t>(std::max(options_.max_calls, 1));
      changed_.wait(lock, [&] { return exhausted_ || !stopped_.ok() || groups_.size() < room; });
      if (exhausted_ || !stopped_.ok()) return nullptr;
      reading_ = true;
    }
    auto group = std::make_unique<Group>();
    group->inputs = ReadGroup();
    const std::lock_guard lock(mutex_);
    reading_ = false;
    changed_.notify_all();
    if (group->inputs.empty()) {
      exhausted_ = true;
      return nullptr;
    }
    groups_.push_back(std::move(group));
    return groups_.back().get();
  }

  std::vector<BulkInput> ReadGroup() {
    std::vector<BulkInput> inputs;
    int64_t bytes = 0;
    while (inputs.size() < static_cast<size_t>(std::max(options_.max_inputs, 1))) {
      if (!next_.has_value() && !inputs.empty() && source_.MustWait()) break;
      if (!next_.has_value()) next_ = source_.Next();
      if (!next_.has_value()) break;
      bytes += SizeOf(*next_);
      if (!inputs.empty() && bytes > options_.max_bytes) break;
      inputs.push_back(*std::exchange(next_, std::nullopt));
    }
    return inputs;
  }

  std::vector<InputResult> Process(const Group& group, std::minstd_rand& random) {
    std::vector<InputResult> results(group.inputs.size());
    std::vector<v1::Input> inputs;
    std::vector<InputResult*> sent;
    for (size_t i = 0; i < group.inputs.size(); ++i) {
      const BulkInput& input = group.inputs[i];
      results[i].status = input.status;
      if (!input.status.ok()) continue;
      v1::Input value = input.value;
      if (!input.is_text()) {
        absl::StatusOr<std::string> content = ReadInputFile(input.source, options_.max_file_bytes);
        results[i].status = content.status();
        if (!content.ok()) continue;
        value.set_image(*std::move(content));
      }
      inputs.push_back(std::move(value));
      sent.push_back(&results[i]);
    }
    if (!inputs.empty()) Send(inputs, sent, random);
    return results;
  }

  // Fills what `results` points to, one per input.
  void Send(std::span<const v1::Input> inputs, std::span<InputResult* const> results, std::minstd_rand& random) {
    absl::StatusOr<std::vector<InputResult>> answer = CallPatiently(inputs, random);
    if (answer.ok() && answer->size() != inputs.size()) {
      answer = absl::InternalError(absl::StrCat(answer->size(), " results for ", inputs.size(), " inputs"));
    }
    if (answer.ok()) {
      for (size_t i = 0; i < inputs.size(); ++i) *results[i] = std::move((*answer)[i]);
      return;
    }
    if (inputs.size() > 1 && MaySucceedInParts(answer.status())) {
      const size_t half = inputs.size() / 2;
      Send(inputs.first(half), results.first(half), random);
      Send(inputs.subspan(half), results.subspan(half), random);
      return;
    }
    const bool ends_run = ConcernsEveryCall(answer.status());
    for (InputResult* result : results) {
      result->status = answer.status();
      result->ended_run = ends_run;
    }
    if (ends_run) Stop(answer.status());
  }

  absl::StatusOr<std::vector<InputResult>> CallPatiently(std::span<const v1::Input> inputs, std::minstd_rand& random) {
    for (int attempt = 1;; ++attempt) {
      absl::StatusOr<std::vector<InputResult>> answer = transport_.Call(inputs);
      if (answer.ok() || HasStopped()) return answer;
      const double share = std::uniform_real_distribution<double>(0, 1)(random);
      const auto wait = NextWait(options_.retry, answer.status(), attempt, share);
      if (!wait.has_value()) return answer;
      sleep_(*wait);
    }
  }

  void Stop(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (stopped_.ok()) stopped_ = status;
    changed_.notify_all();
  }

  bool HasStopped() {
    const std::lock_guard lock(mutex_);
    return !stopped_.ok();
  }

  void Deliver(const DeliverResult& deliver, BulkSummary& summary) {
    const auto hand_over = [&](const BulkInput& input, const InputResult& result) {
      ++summary.inputs;
      if (!result.status.ok()) ++summary.failed;
      if (summary.delivery.ok()) summary.delivery = deliver(input, result);
      if (!summary.delivery.ok()) Stop(absl::CancelledError("the results could not be written"));
    };
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] {
        if (!groups_.empty()) return groups_.front()->done;
        return !reading_ && (exhausted_ || !stopped_.ok());
      });
      if (groups_.empty()) break;
      const std::unique_ptr<Group> group = std::move(groups_.front());
      groups_.pop_front();
      changed_.notify_all();
      lock.unlock();
      for (size_t i = 0; i < group->inputs.size(); ++i) hand_over(group->inputs[i], group->results[i]);
      lock.lock();
    }
    summary.stopped = stopped_;
    lock.unlock();
    if (!summary.stopped.ok()) DeliverRest(hand_over, summary);
  }

  template <typename HandOver>
  void DeliverRest(const HandOver& hand_over, BulkSummary& summary) {
    InputResult rest;
    rest.status = summary.stopped;
    rest.ended_run = true;
    const std::lock_guard source_lock(source_mutex_);
    summary.not_read = source_.StopReading();
    while (true) {
      if (!next_.has_value()) next_ = source_.Next();
      if (!next_.has_value()) return;
      hand_over(*std::exchange(next_, std::nullopt), rest);
      ++summary.not_sent;
    }
  }

  const BulkOptions& options_;
  Transport& transport_;
  const SleepFunction& sleep_;

  std::mutex source_mutex_;  // guards what follows; taken before `mutex_`
  InputSource& source_;
  std::optional<BulkInput> next_;  // did not fit into the group before

  // Guards what follows. A group in `groups_` that is not done belongs to the worker that took it; its inputs stay.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reading_ = false;                       // a worker is about to add a group
  bool exhausted_ = false;                     // the source is
  std::deque<std::unique_ptr<Group>> groups_;  // taken and not yet delivered, in the order of their inputs
  absl::Status stopped_;
};

}  // namespace

BulkSummary RunBulk(InputSource& source, const BulkOptions& options, Transport& transport, const SleepFunction& sleep,
                    const DeliverResult& deliver) {
  return BulkRun(source, options, transport, sleep).Run(deliver);
}

}  // namespace lion
