// A fixed number of threads that run jobs in the order they were given.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "server/mutex.h"

namespace lion {

// The queue itself is unbounded: what bounds it is that every job belongs to admitted work (Batcher::Reserve). Latency
// of a job: (jobs ahead / threads + 1) * the longest job. Not for work that waits for other jobs of the same pool.
class ThreadPool {
 public:
  // `threads` >= 1. The name shows in debuggers and top; at most 15 characters.
  // Throws std::system_error when a thread cannot be started.
  ThreadPool(const char* name, int threads);
  // Runs what is queued, then joins.
  ~ThreadPool();

  // Any thread. Not after the destructor has begun, except from a job.
  void Submit(std::function<void()> job);

 private:
  void Stop();
  void Loop();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lion
