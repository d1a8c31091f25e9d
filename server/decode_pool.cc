#include "server/decode_pool.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/pushback.h"

namespace lion {
namespace {

constexpr double kRateSmoothing = 0.2;  // weight of the newest image
constexpr int64_t kMinPushbackMs = 10;
constexpr int64_t kMaxPushbackMs = 5000;

}  // namespace

DecodePool::DecodePool(const DecodePoolOptions& options, Clock* clock, FairBudget* bytes)
    : options_(options), clock_(clock), bytes_(bytes) {
  try {
    Start();
  } catch (...) {
    Stop();
    throw;
  }
}

DecodePool::~DecodePool() { Stop(); }

void DecodePool::Start() {
  threads_.reserve(static_cast<size_t>(options_.threads));
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
    pthread_setname_np(threads_.back().native_handle(), "lion-decode");
  }
}

void DecodePool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status DecodePool::Submit(std::vector<DecodeJob> jobs, int priority) {
  int64_t pixels = 0;
  for (const DecodeJob& job : jobs) pixels += std::max(job.pixels, kMinDecodePixels);
  if (jobs.size() > 1 && pixels > options_.max_queue_pixels) {
    return absl::InvalidArgumentError(absl::StrCat("decoding and resizing the call's images takes ", pixels,
                                                   " pixels of work, more than the ", options_.max_queue_pixels,
                                                   " that ever wait (--max-queue-pixels): split the call"));
  }
  std::vector<DecodeQueue::Dropped> dropped;
  absl::Status status;
  {
    MutexLock lock(mutex_);
    const auto full = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !queue_.empty() && pixels > options_.max_queue_pixels - queue_.pixels();
    };
    if (full()) queue_.DropDead(clock_->NowNs(), &dropped);
    if (full()) {
      status = QueueFull(pixels);
    } else {
      queue_.Push(std::move(jobs), priority);
      // With the lock held: once it is free, the work may be done and the pool destroyed.
      changed_.NotifyOne();
    }
  }
  for (DecodeQueue::Dropped& drop : dropped) drop.job.run(drop.why);
  return status;
}

absl::Status DecodePool::QueueFull(int64_t pixels) const {
  int64_t pushback_ms = kUnknownPushbackMs;
  if (pixels_per_ms_ > 0) {
    const auto to_drain = static_cast<double>(queue_.pixels() + pixels - options_.max_queue_pixels);
    pushback_ms = static_cast<int64_t>(
        std::clamp(to_drain / (pixels_per_ms_ * options_.threads), double{kMinPushbackMs}, double{kMaxPushbackMs}));
  }
  return TryAgainIn(pushback_ms, absl::StrCat("too many images wait to be decoded: ", queue_.pixels(), " of ",
                                              options_.max_queue_pixels,
                                              " pixels of work (--max-queue-pixels), the call has ", pixels));
}

int64_t DecodePool::waiting_pixels() const {
  MutexLock lock(mutex_);
  return queue_.pixels();
}

bool DecodePool::Next(Turn* turn) {
  MutexLock lock(mutex_);
  while (true) {
    queue_.DropDeadFront(clock_->NowNs(), &turn->dropped);
    if (!queue_.empty() && bytes_->TryAcquire(queue_.Front().bytes, &turn->memory)) {
      turn->job = queue_.Pop();
      // Who takes one wakes the next thread: there may be memory and work for it, too.
      if (!queue_.empty()) changed_.NotifyOne();
      return true;
    }
    if (!turn->dropped.empty()) return true;
    if (queue_.empty() && stopping_) {
      // Others may wait for the memory of what was left.
      changed_.NotifyAll();
      return false;
    }
    changed_.Wait(mutex_);
  }
}

void DecodePool::Loop() {
  while (true) {
    // Its end gives the memory back and lets go of what the job held.
    Turn turn;
    if (!Next(&turn)) return;
    for (DecodeQueue::Dropped& drop : turn.dropped) drop.job.run(drop.why);
    turn.dropped.clear();
    if (!turn.job.run) continue;
    const int64_t pixels = std::max(turn.job.pixels, kMinDecodePixels);
    const int64_t start_ns = clock_->NowNs();
    turn.job.run(absl::OkStatus());
    turn.job.run = nullptr;
    const double elapsed_ms = static_cast<double>(clock_->NowNs() - start_ns) / 1e6;
    turn.memory = FairBudget::Grant();

    MutexLock lock(mutex_);
    if (elapsed_ms > 0) {
      const double rate = static_cast<double>(pixels) / elapsed_ms;
      pixels_per_ms_ = pixels_per_ms_ == 0 ? rate : pixels_per_ms_ + kRateSmoothing * (rate - pixels_per_ms_);
    }
  }
}

}  // namespace lion
