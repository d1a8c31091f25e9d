#include "server/prepare_queue.h"

namespace lion {
namespace {

absl::Status WhyDead(const PrepareJob& job, int64_t now_ns) {
  if (now_ns >= job.deadline_ns) return absl::DeadlineExceededError("the deadline passed before the work began");
  if (job.cancelled != nullptr && job.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("cancelled by the caller");
  }
  return absl::OkStatus();
}

}  // namespace

void PrepareQueue::Push(std::vector<PrepareJob> jobs, int priority) {
  if (jobs.empty()) return;
  const int64_t head_start = std::clamp(priority, 0, kMaxPriority) * kind_.priority_step;
  const uint64_t call = next_call_++;
  const auto inputs = static_cast<int64_t>(jobs.size());
  // Allocated before anything changes, so that a call is queued as a whole or not at all.
  std::map<Key, Waiting> added;
  int64_t begin = virtual_work_;
  for (PrepareJob& job : jobs) {
    const int64_t end = begin + WorkOf(job);
    added.emplace(Key(end - head_start, next_input_++), Waiting{std::move(job), begin, call});
    begin = end;
  }
  inputs_of_call_.emplace(call, inputs);
  waiting_.merge(added);
  work_ += begin - virtual_work_;
}

PrepareQueue::Waiting PrepareQueue::Remove(Iterator place) {
  Waiting waiting = std::move(place->second);
  waiting_.erase(place);
  work_ -= WorkOf(waiting.job);
  const auto call = inputs_of_call_.find(waiting.call);
  if (--call->second == 0) inputs_of_call_.erase(call);
  return waiting;
}

PrepareJob PrepareQueue::Pop() {
  const auto calls = static_cast<int64_t>(inputs_of_call_.size());
  Waiting next = Remove(waiting_.begin());
  // Half of each call's share: the full share would let a call's second input catch up with a newcomer while its first
  // is being prepared. At least 1, so that nothing stands still.
  const int64_t advance = std::max<int64_t>(1, WorkOf(next.job) / (2 * calls));
  virtual_work_ = std::max(virtual_work_, next.begin) + advance;
  return std::move(next.job);
}

void PrepareQueue::Drop(Iterator place, absl::Status why, std::vector<Dropped>* dropped) {
  Dropped& drop = dropped->emplace_back();
  drop.job = Remove(place).job;
  drop.why = std::move(why);
}

void PrepareQueue::DropDeadFront(int64_t now_ns, std::vector<Dropped>* dropped) {
  while (!waiting_.empty()) {
    absl::Status why = WhyDead(Front(), now_ns);
    if (why.ok()) return;
    Drop(waiting_.begin(), std::move(why), dropped);
  }
}

void PrepareQueue::DropDead(int64_t now_ns, std::vector<Dropped>* dropped) {
  for (auto place = waiting_.begin(); place != waiting_.end();) {
    const auto here = place++;
    absl::Status why = WhyDead(here->second.job, now_ns);
    if (!why.ok()) Drop(here, std::move(why), dropped);
  }
}

}  // namespace lion
