#include "server/decode_queue.h"

#include <algorithm>

namespace lion {
namespace {

int64_t Work(const DecodeJob& job) { return std::max(job.pixels, kMinDecodePixels); }

absl::Status WhyDead(const DecodeJob& job, int64_t now_ns) {
  if (now_ns >= job.deadline_ns) return absl::DeadlineExceededError("the deadline passed before the work began");
  if (job.cancelled != nullptr && job.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("cancelled by the caller");
  }
  return absl::OkStatus();
}

}  // namespace

void DecodeQueue::Push(std::vector<DecodeJob> jobs, int priority) {
  if (jobs.empty()) return;
  const int64_t head_start = std::clamp(priority, 0, kMaxPriority) * kDecodePriorityStepPixels;
  const uint64_t call = next_call_++;
  const auto images = static_cast<int64_t>(jobs.size());
  // Allocated before anything changes, so that a call is queued as a whole or not at all.
  std::map<Key, Waiting> added;
  int64_t begin = virtual_pixels_;
  for (DecodeJob& job : jobs) {
    const int64_t end = begin + Work(job);
    added.emplace(Key(end - head_start, next_image_++), Waiting{std::move(job), begin, call});
    begin = end;
  }
  images_of_call_.emplace(call, images);
  waiting_.merge(added);
  pixels_ += begin - virtual_pixels_;
}

DecodeQueue::Waiting DecodeQueue::Remove(Iterator place) {
  Waiting waiting = std::move(place->second);
  waiting_.erase(place);
  pixels_ -= Work(waiting.job);
  const auto call = images_of_call_.find(waiting.call);
  if (--call->second == 0) images_of_call_.erase(call);
  return waiting;
}

DecodeJob DecodeQueue::Pop() {
  const auto calls = static_cast<int64_t>(images_of_call_.size());
  Waiting next = Remove(waiting_.begin());
  // Half of each call's share: the full share would let a call's second image catch up with a newcomer while its first
  // is being decoded. At least 1, so that nothing stands still.
  const int64_t advance = std::max<int64_t>(1, Work(next.job) / (2 * calls));
  virtual_pixels_ = std::max(virtual_pixels_, next.begin) + advance;
  return std::move(next.job);
}

void DecodeQueue::DropDeadFront(int64_t now_ns, std::vector<Dropped>* dropped) {
  while (!waiting_.empty()) {
    absl::Status why = WhyDead(Front(), now_ns);
    if (why.ok()) return;
    dropped->push_back({Remove(waiting_.begin()).job, std::move(why)});
  }
}

void DecodeQueue::DropDead(int64_t now_ns, std::vector<Dropped>* dropped) {
  for (auto place = waiting_.begin(); place != waiting_.end();) {
    const auto here = place++;
    absl::Status why = WhyDead(here->second.job, now_ns);
    if (!why.ok()) dropped->push_back({Remove(here).job, std::move(why)});
  }
}

}  // namespace lion
