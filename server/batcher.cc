#include "server/batcher.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr double kRateSmoothing = 0.2;  // weight of the newest batch: a few batches of memory
constexpr int64_t kMinPushbackMs = 10;
constexpr int64_t kMaxPushbackMs = 5000;
constexpr int64_t kRetryNs = 10'000'000;  // after there was no memory

// Room for `count` more, in steps that double.
template <class Value>
void ReserveMore(size_t count, std::vector<Value>* values) {
  const size_t needed = values->size() + count;
  if (needed > values->capacity()) values->reserve(std::max(needed, 2 * values->capacity()));
}

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

absl::StatusOr<Batcher::Reservation> Batcher::Reserve(int64_t least, int64_t most) {
  if (least > options_.max_queue_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("the call's inputs have ", least, " tokens, more than the ",
                                                   options_.max_queue_tokens,
                                                   " the queue ever holds (--max-queue-tokens): split the call"));
  }
  Dropping dropping;
  MutexLock lock(mutex_);
  if (draining_) return absl::UnavailableError("the server is shutting down");
  if (absl::Status status = MakeRoom(least, &dropping); !status.ok()) return status;
  const int64_t tokens = least + std::min(most - least, (FreeTokens() - least) / 2);
  reserved_tokens_ += tokens;
  return Reservation(this, tokens);
}

absl::Status Batcher::Reservation::Grow(int64_t tokens) {
  absl::Status status = batcher_->Grow(tokens);
  if (status.ok()) tokens_ += tokens;
  return status;
}

absl::Status Batcher::Grow(int64_t tokens) {
  Dropping dropping;
  MutexLock lock(mutex_);
  absl::Status status = MakeRoom(tokens, &dropping);
  if (status.ok()) reserved_tokens_ += tokens;
  return status;
}

absl::Status Batcher::MakeRoom(int64_t tokens, Dropping* dropping) {
  if (tokens > FreeTokens()) DropDead(dropping);
  return tokens > FreeTokens() ? QueueFull(tokens) : absl::OkStatus();
}

void Batcher::DropDead(Dropping* dropping) {
  BatchPlan plan = PlanBatch(queue_, clock_->NowNs(), /*flush=*/false, options_.limits);
  std::replace(plan.verdicts.begin(), plan.verdicts.end(), Verdict::kRuns, Verdict::kWaits);
  Apply(plan, nullptr, dropping);
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
                                 " tokens wait (--max-queue-tokens), the call needs ", tokens));
}

std::vector<QueuedTask> Batcher::Enter(const std::vector<Entry>& entries) {
  std::vector<QueuedTask> entered;
  entered.reserve(entries.size());
  const int64_t now_ns = clock_->NowNs();
  try {
    for (const Entry& entry : entries) {
      const int priority = std::clamp(entry.priority, 0, kMaxPriority);
      const int64_t tokens = entry.reservation.tokens();
      entered.push_back({.tokens = tokens,
                         .place = fair_order_.Enter(entry.caller, tokens, priority),
                         .arrival_ns = now_ns,
                         .deadline_ns = entry.deadline_ns,
                         .cancelled = entry.cancelled});
    }
  } catch (const std::bad_alloc&) {
    for (; !entered.empty(); entered.pop_back()) fair_order_.Drop(entered.back().place);
    throw;
  }
  return entered;
}

void Batcher::Submit(std::vector<Entry>&& entries) {
  MutexLock lock(mutex_);
  ReserveMore(entries.size(), &queue_);
  ReserveMore(entries.size(), &tasks_);
  const std::vector<QueuedTask> entered = Enter(entries);
  // Nothing throws from here on.
  for (size_t i = 0; i < entries.size(); ++i) {
    // The room passes from the reservation to the queue's own account.
    entries[i].reservation.batcher_ = nullptr;
    const auto place = std::upper_bound(queue_.begin(), queue_.end(), entered[i], RunsBefore);
    tasks_.insert(tasks_.begin() + (place - queue_.begin()), std::move(entries[i].task));
    queue_.insert(place, entered[i]);
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

void Batcher::Apply(const BatchPlan& plan, Batch* batch, Dropping* dropping) {
  static const auto* const expired = new absl::Status(absl::DeadlineExceededError("the deadline passed in the queue"));
  static const auto* const cancelled = new absl::Status(absl::CancelledError("cancelled in the queue"));
  dropping->tasks.reserve(queue_.size());
  if (batch != nullptr) batch->tasks.reserve(queue_.size());
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
        dropping->tasks.push_back({std::move(tasks_[i]), *expired});
        break;
      case Verdict::kCancelled:
        dropping->tasks.push_back({std::move(tasks_[i]), *cancelled});
        break;
      default:
        batch->tasks.push_back(std::move(tasks_[i]));
    }
  }
  queue_.resize(kept);
  tasks_.resize(kept);
}

bool Batcher::WaitForWork() try {
  MutexLock lock(mutex_);
  while (true) {
    if (queue_.empty()) {
      if (stopping_) return false;
      changed_.Wait(mutex_);
      continue;
    }
    if (options_.limits.max_wait_ns == 0) return true;
    const BatchPlan plan = PlanBatch(queue_, clock_->NowNs(), draining_, LimitsAtRate(options_.limits, tokens_per_ms_));
    if (plan.look_again_ns == kNever) return true;
    clock_->WaitUntil(changed_, mutex_, plan.look_again_ns);
  }
} catch (const std::bad_alloc&) {
  return true;
}

Batch Batcher::FormBatch(Dropping* dropping) {
  MutexLock lock(mutex_);
  try {
    return FormBatchLocked(dropping);
  } catch (const std::bad_alloc&) {
    clock_->WaitUntil(changed_, mutex_, clock_->NowNs() + kRetryNs);
    return Batch();
  }
}

Batch Batcher::FormBatchLocked(Dropping* dropping) {
  const BatchPlan plan = PlanBatch(queue_, clock_->NowNs(), draining_, LimitsAtRate(options_.limits, tokens_per_ms_));
  Batch batch;
  batch.tokens = plan.tokens;
  batch.formed_ns = clock_->NowNs();
  Apply(plan, &batch, dropping);
  running_ = plan.inputs > 0 || !plan.verdicts.empty();
  return batch;
}

void Batcher::Loop() {
  while (WaitForWork()) {
    // Formed only with the turn in hand, so that what comes in meanwhile can still join.
    FairBudget::Grant turn;
    if (device_turn_ != nullptr) turn = device_turn_->Acquire(1);
    Batch batch;
    {
      Dropping dropping;
      batch = FormBatch(&dropping);
    }
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
