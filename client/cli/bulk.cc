#include "client/cli/bulk.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lion/client.h"

namespace lion {
namespace {

// Consecutive files that one worker handles.
struct Group {
  size_t first = 0;
  size_t count = 0;
  bool done = false;
  std::vector<ImageResult> results;  // [count] once done
};

int64_t FileSize(const InputFile& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file.path, error);
  return error ? 0 : static_cast<int64_t>(size);  // pipes, and files that are not there
}

// Worth trying with fewer images: one of them, or their sum, was what the server refused.
bool MaySucceedInParts(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || (absl::IsResourceExhausted(status) && !RetryPushback(status).has_value());
}

class BulkRun {
 public:
  BulkRun(const std::vector<InputFile>& files, const BulkOptions& options, Transport& transport,
          const SleepFunction& sleep)
      : files_(files), options_(options), transport_(transport), sleep_(sleep) {}

  BulkSummary Run(const DeliverResult& deliver) {
    std::vector<std::thread> workers;
    const size_t wanted = std::min<size_t>(std::max(options_.max_calls, 1), files_.size());
    for (size_t i = 0; i < wanted; ++i) workers.emplace_back([this, i] { Work(static_cast<uint32_t>(i)); });
    BulkSummary summary;
    Deliver(deliver, summary);
    for (std::thread& worker : workers) worker.join();
    return summary;
  }

 private:
  void Work(uint32_t seed) {
    std::minstd_rand random(seed + 1);
    while (Group* group = TakeGroup()) {
      std::vector<ImageResult> results = Process(*group, random);
      const std::lock_guard lock(mutex_);
      group->results = std::move(results);
      group->done = true;
      changed_.notify_all();
    }
  }

  // The next files, once there is room for their results; null: there are none, or the run has stopped.
  Group* TakeGroup() {
    std::unique_lock lock(mutex_);
    const size_t room = 2 * static_cast<size_t>(std::max(options_.max_calls, 1));
    changed_.wait(lock, [&] { return next_file_ == files_.size() || !stopped_.ok() || groups_.size() < room; });
    if (next_file_ == files_.size() || !stopped_.ok()) return nullptr;
    auto group = std::make_unique<Group>();
    group->first = next_file_;
    for (int64_t bytes = 0; next_file_ < files_.size(); ++next_file_, ++group->count) {
      if (group->count == static_cast<size_t>(std::max(options_.max_inputs, 1))) break;
      bytes += FileSize(files_[next_file_]);
      if (group->count > 0 && bytes > options_.max_bytes) break;
    }
    groups_.push_back(std::move(group));
    changed_.notify_all();
    return groups_.back().get();
  }

  std::vector<ImageResult> Process(const Group& group, std::minstd_rand& random) {
    std::vector<ImageResult> results(group.count);
    std::vector<std::string> images;
    std::vector<ImageResult*> sent;
    for (size_t i = 0; i < group.count; ++i) {
      const InputFile& file = files_[group.first + i];
      results[i].status = file.status;
      if (!file.status.ok()) continue;
      absl::StatusOr<std::string> content = ReadInputFile(file.path, options_.max_file_bytes);
      results[i].status = content.status();
      if (!content.ok()) continue;
      images.push_back(*std::move(content));
      sent.push_back(&results[i]);
    }
    if (!images.empty()) Send(images, sent, random);
    return results;
  }

  // Fills what `results` points to, one per image.
  void Send(std::span<const std::string> images, std::span<ImageResult* const> results, std::minstd_rand& random) {
    absl::StatusOr<std::vector<ImageResult>> answer = CallPatiently(images, random);
    if (answer.ok() && answer->size() != images.size()) {
      answer = absl::InternalError(absl::StrCat(answer->size(), " results for ", images.size(), " images"));
    }
    if (answer.ok()) {
      for (size_t i = 0; i < images.size(); ++i) *results[i] = std::move((*answer)[i]);
      return;
    }
    if (images.size() > 1 && MaySucceedInParts(answer.status())) {
      const size_t half = images.size() / 2;
      Send(images.first(half), results.first(half), random);
      Send(images.subspan(half), results.subspan(half), random);
      return;
    }
    const bool ends_run = ConcernsEveryCall(answer.status());
    for (ImageResult* result : results) {
      result->status = answer.status();
      result->ended_run = ends_run;
    }
    if (ends_run) Stop(answer.status());
  }

  absl::StatusOr<std::vector<ImageResult>> CallPatiently(std::span<const std::string> images,
                                                         std::minstd_rand& random) {
    for (int attempt = 1;; ++attempt) {
      absl::StatusOr<std::vector<ImageResult>> answer = transport_.Call(images);
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
    const auto hand_over = [&](size_t index, const ImageResult& result) {
      if (!result.status.ok()) ++summary.failed;
      if (summary.delivery.ok()) summary.delivery = deliver(index, result);
      if (!summary.delivery.ok()) Stop(absl::CancelledError("the results could not be written"));
    };
    size_t delivered = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] {
        if (!groups_.empty()) return groups_.front()->done;
        return next_file_ == files_.size() || !stopped_.ok();
      });
      if (groups_.empty()) break;
      const std::unique_ptr<Group> group = std::move(groups_.front());
      groups_.pop_front();
      changed_.notify_all();
      lock.unlock();
      for (const ImageResult& result : group->results) hand_over(delivered++, result);
      lock.lock();
    }
    summary.stopped = stopped_;
    lock.unlock();
    ImageResult rest;
    rest.status = summary.stopped;
    rest.ended_run = true;
    for (; delivered < files_.size(); ++delivered, ++summary.not_sent) hand_over(delivered, rest);
  }

  const std::vector<InputFile>& files_;
  const BulkOptions& options_;
  Transport& transport_;
  const SleepFunction& sleep_;

  // Guards what follows. A group in `groups_` that is not done belongs to the worker that took it, which alone touches
  // its `first` and `count`.
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_file_ = 0;
  std::deque<std::unique_ptr<Group>> groups_;  // taken and not yet delivered, in the order of their files
  absl::Status stopped_;
};

}  // namespace

BulkSummary RunBulk(const std::vector<InputFile>& files, const BulkOptions& options, Transport& transport,
                    const SleepFunction& sleep, const DeliverResult& deliver) {
  return BulkRun(files, options, transport, sleep).Run(deliver);
}

}  // namespace lion
