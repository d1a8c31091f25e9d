#include "server/prepare_pool.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/pushback.h"

namespace lion {
namespace {

constexpr double kRateSmoothing = 0.2;  // weight of the newest job
constexpr int64_t kMinPushbackMs = 10;
constexpr int64_t kMaxPushbackMs = 5000;

}  // namespace

PreparePool::PreparePool(const PreparePoolOptions& options, Clock* clock, FairBudget* bytes)
    : options_(options), clock_(clock), bytes_(bytes), queue_(options.kind) {
  try {
    Start();
  } catch (...) {
    Stop();
    throw;
  }
}

PreparePool::~PreparePool() { Stop(); }

void PreparePool::Start() {
  threads_.reserve(static_cast<size_t>(options_.threads));
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
    pthread_setname_np(threads_.back().native_handle(), options_.kind.thread);
  }
}

void PreparePool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status PreparePool::Submit(std::vector<PrepareJob> jobs, int priority) {
  const PrepareKind& kind = options_.kind;
  int64_t work = 0;
  for (const PrepareJob& job : jobs) work += std::max(job.work, kind.least_work);
  if (jobs.size() > 1 && work > options_.max_queue_work) {
    return absl::InvalidArgumentError(absl::StrCat("the call's ", kind.inputs, " take ", work, " ", kind.unit,
                                                   ", more than the ", options_.max_queue_work, " that ever wait (",
                                                   kind.limit, "): split the call"));
  }
  Dropping dropping;
  MutexLock lock(mutex_);
  const auto full = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() && work > options_.max_queue_work - queue_.work();
  };
  if (full()) queue_.DropDead(clock_->NowNs(), &dropping.jobs);
  if (full()) return QueueFull(work);
  queue_.Push(std::move(jobs), priority);
  // With the lock held: once it is free, the work may be done and the pool destroyed.
  changed_.NotifyOne();
  return absl::OkStatus();
}

absl::Status PreparePool::QueueFull(int64_t work) const {
  int64_t pushback_ms = kUnknownPushbackMs;
  if (work_per_ms_ > 0) {
    const auto to_drain = static_cast<double>(queue_.work() + work - options_.max_queue_work);
    pushback_ms = static_cast<int64_t>(
        std::clamp(to_drain / (work_per_ms_ * options_.threads), double{kMinPushbackMs}, double{kMaxPushbackMs}));
  }
  return TryAgainIn(pushback_ms, absl::StrCat("too many ", options_.kind.inputs, " wait: ", queue_.work(), " of ",
                                              options_.max_queue_work, " ", options_.kind.unit, " (",
                                              options_.kind.limit, "), the call has ", work));
}

int64_t PreparePool::waiting_work() const {
  MutexLock lock(mutex_);
  return queue_.work();
}

bool PreparePool::Next(Turn* turn) {
  MutexLock lock(mutex_);
  while (true) {
    try {
      queue_.DropDeadFront(clock_->NowNs(), &turn->dropping.jobs);
    } catch (const std::bad_alloc&) {
      // What is dead and left finds out when it is run.
    }
    if (!queue_.empty() && (bytes_ == nullptr || bytes_->TryAcquire(queue_.Front().bytes, &turn->memory))) {
      turn->job = queue_.Pop();
      // Who takes one wakes the next thread: there may be memory and work for it, too.
      if (!queue_.empty()) changed_.NotifyOne();
      return true;
    }
    if (!turn->dropping.jobs.empty()) return true;
    if (queue_.empty() && stopping_) {
      // Others may wait for the memory of what was left.
      changed_.NotifyAll();
      return false;
    }
    changed_.Wait(mutex_);
  }
}

void PreparePool::Loop() {
  while (true) {
    // Its end gives the memory back and lets go of what the job held.
    Turn turn;
    if (!Next(&turn)) return;
    turn.dropping.Run();
    if (!turn.job.run) continue;
    const int64_t work = std::max(turn.job.work, options_.kind.least_work);
    const int64_t start_ns = clock_->NowNs();
    turn.job.run(absl::OkStatus());
    turn.job.run = nullptr;
    const double elapsed_ms = static_cast<double>(clock_->NowNs() - start_ns) / 1e6;
    turn.memory = FairBudget::Grant();

    MutexLock lock(mutex_);
    if (elapsed_ms > 0) {
      const double rate = static_cast<double>(work) / elapsed_ms;
      work_per_ms_ = work_per_ms_ == 0 ? rate : work_per_ms_ + kRateSmoothing * (rate - work_per_ms_);
    }
  }
}

}  // namespace lion
