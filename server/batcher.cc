#include "server/batcher.h"

#include <pthread.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr double kRateSmoothing = 0.2;  // weight of the newest batch: a few batches of memory
constexpr int64_t kMinPushbackMs = 10;
constexpr int64_t kMaxPushbackMs = 5000;

}  // namespace

Batcher::Reservation Batcher::Reservation::Split(int64_t tokens) {
  tokens_ -= tokens;
  return Reservation(batcher_, tokens);
}

absl::StatusOr<std::unique_ptr<Batcher>> Batcher::Create(const BatcherOptions& options, Clock* clock,
                                                         FairBudget* device_turn, RunFunction run) {
  if (absl::Status status = options.limits.Validate(); !status.ok()) return status;
  if (options.max_queue_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max queue tokens: got ", options.max_queue_tokens, ", want >= 1"));
  }
  return std::unique_ptr<Batcher>(new Batcher(options, clock, device_turn, std::move(run)));
}

Batcher::Batcher(const BatcherOptions& options, Clock* clock, FairBudget* device_turn, RunFunction run)
    : options_(options),
      clock_(clock),
      device_turn_(device_turn),
      run_(std::move(run)),
      fair_order_(options.limits.priority_step_tokens),
      thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "lion-batcher");
}

Batcher::~Batcher() {
  Drain();
  WaitIdle(kNever);
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

absl::StatusOr<Batcher::Reservation> Batcher::Reserve(int64_t tokens) {
  if (tokens > options_.max_queue_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("the call's inputs have ", tokens, " tokens, more than the ",
                                                   options_.max_queue_tokens,
                                                   " the queue ever holds (--max-queue-tokens): split the call"));
  }
  std::vector<Dropped> dropped;
  absl::StatusOr<Reservation> result = absl::UnavailableError("the server is shutting down");
  {
    MutexLock lock(mutex_);
    if (draining_) return result;
    if (tokens > options_.max_queue_tokens - reserved_tokens_) DropDead(&dropped);
    if (tokens > options_.max_queue_tokens - reserved_tokens_) {
      result = QueueFull(tokens);
    } else {
      reserved_tokens_ += tokens;
      result = Reservation(this, tokens);
    }
  }
  for (Dropped& drop : dropped) drop.task->Drop(drop.why);
  return result;
}

void Batcher::DropDead(std::vector<Dropped>* dropped) {
  BatchPlan plan = PlanBatch(queue_, clock_->NowNs(), /*flush=*/false, options_.limits);
  std::replace(plan.verdicts.begin(), plan.verdicts.end(), Verdict::kRuns, Verdict::kWaits);
  Apply(plan, nullptr, dropped);
}

absl::Status Batcher::QueueFull(int64_t tokens) const {
  int64_t pushback_ms = kUnknownPushbackMs;
  if (tokens_per_ms_ > 0) {
    const double to_drain = static_cast<double>(reserved_tokens_ + tokens - options_.max_queue_tokens);
    pushback_ms =
        static_cast<int64_t>(std::clamp(to_drain / tokens_per_ms_, double{kMinPushbackMs}, double{kMaxPushbackMs}));
  }
  return TryAgainIn(pushback_ms,
                    absl::StrCat("the queue is full: ", reserved_tokens_, " of ", options_.max_queue_tokens,
                                 " tokens wait (--max-queue-tokens), the call has ", tokens));
}

void Batcher::Submit(std::vector<Entry> entries) {
  MutexLock lock(mutex_);
  const int64_t now_ns = clock_->NowNs();
  for (Entry& entry : entries) {
    // The room passes from the reservation to the queue's own account.
    entry.reservation.batcher_ = nullptr;
    const int priority = std::clamp(entry.priority, 0, kMaxPriority);
    const QueuedTask queued = {.tokens = entry.reservation.tokens_,
                               .place = fair_order_.Enter(entry.caller, entry.reservation.tokens_, priority),
                               .arrival_ns = now_ns,
                               .deadline_ns = entry.deadline_ns,
                               .cancelled = entry.cancelled};
    const auto place = std::upper_bound(queue_.begin(), queue_.end(), queued, RunsBefore);
    tasks_.insert(tasks_.begin() + (place - queue_.begin()), std::move(entry.task));
    queue_.insert(place, queued);
  }
  // With the lock held: once it is free, the work may be done and the batcher destroyed.
  changed_.NotifyAll();
}

void Batcher::Drain() {
  MutexLock lock(mutex_);
  draining_ = true;
  changed_.NotifyAll();
}

bool Batcher::WaitIdle(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (reserved_tokens_ > 0 || running_) {
    if (clock_->NowNs() >= deadline_ns) return false;
    clock_->WaitUntil(changed_, mutex_, deadline_ns);
  }
  return true;
}

int64_t Batcher::reserved_tokens() const {
  MutexLock lock(mutex_);
  return reserved_tokens_;
}

void Batcher::Release(int64_t tokens) {
  MutexLock lock(mutex_);
  ReleaseLocked(tokens);
}

void Batcher::ReleaseLocked(int64_t tokens) {
  reserved_tokens_ -= tokens;
  if (reserved_tokens_ == 0) changed_.NotifyAll();
}

void Batcher::Apply(const BatchPlan& plan, Batch* batch, std::vector<Dropped>* dropped) {
  // From the back, where one piece of a caller takes back the time of the next.
  for (size_t i = queue_.size(); i-- > 0;) {
    const Verdict verdict = plan.verdicts[i];
    if (verdict == Verdict::kExpired || verdict == Verdict::kCancelled) fair_order_.Drop(queue_[i].place);
  }
  size_t kept = 0;
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (plan.verdicts[i] == Verdict::kWaits) {
      if (kept != i) {
        queue_[kept] = queue_[i];
        tasks_[kept] = std::move(tasks_[i]);
      }
      ++kept;
      continue;
    }
    ReleaseLocked(queue_[i].tokens);
    if (plan.verdicts[i] == Verdict::kRuns) fair_order_.Serve(queue_[i].place);
    switch (plan.verdicts[i]) {
      case Verdict::kExpired:
        dropped->push_back({std::move(tasks_[i]), absl::DeadlineExceededError("the deadline passed in the queue")});
        break;
      case Verdict::kCancelled:
        dropped->push_back({std::move(tasks_[i]), absl::CancelledError("cancelled in the queue")});
        break;
      default:
        batch->tasks.push_back(std::move(tasks_[i]));
    }
  }
  queue_.resize(kept);
  tasks_.resize(kept);
}

bool Batcher::WaitForWork() {
  MutexLock lock(mutex_);
  while (true) {
    if (queue_.empty()) {
      if (stopping_) return false;
      changed_.Wait(mutex_);
      continue;
    }
    if (options_.limits.max_wait_ns == 0) return true;
    const BatchPlan plan = PlanBatch(queue_, clock_->NowNs(), draining_, options_.limits);
    if (plan.look_again_ns == kNever) return true;
    clock_->WaitUntil(changed_, mutex_, plan.look_again_ns);
  }
}

Batch Batcher::FormBatch(std::vector<Dropped>* dropped) {
  MutexLock lock(mutex_);
  const BatchPlan plan = PlanBatch(queue_, clock_->NowNs(), draining_, options_.limits);
  Batch batch;
  batch.tokens = plan.tokens;
  batch.formed_ns = clock_->NowNs();
  // Before the room is given back, so that WaitIdle sees no gap.
  running_ = plan.inputs > 0 || !plan.verdicts.empty();
  Apply(plan, &batch, dropped);
  return batch;
}

void Batcher::Loop() {
  while (WaitForWork()) {
    // Formed only with the turn in hand, so that what comes in meanwhile can still join.
    FairBudget::Grant turn;
    if (device_turn_ != nullptr) turn = device_turn_->Acquire(1);
    std::vector<Dropped> dropped;
    Batch batch = FormBatch(&dropped);
    for (Dropped& drop : dropped) drop.task->Drop(drop.why);
    const int64_t tokens = batch.tokens;
    const int64_t start_ns = batch.formed_ns;
    if (tokens > 0) run_(std::move(batch));
    const double elapsed_ms = static_cast<double>(clock_->NowNs() - start_ns) / 1e6;

    MutexLock lock(mutex_);
    running_ = false;
    if (tokens > 0 && elapsed_ms > 0) {
      const double rate = static_cast<double>(tokens) / elapsed_ms;
      tokens_per_ms_ = tokens_per_ms_ == 0 ? rate : tokens_per_ms_ + kRateSmoothing * (rate - tokens_per_ms_);
    }
    changed_.NotifyAll();
  }
}

}  // namespace lion
