#include "kernels/cpu/thread_pool.h"

#include <chrono>

// OpenMP 5.2, section 18.2.1. Its header <omp.h> is the compiler's own; the library is the one that oneDNN uses.
extern "C" void omp_set_num_threads(int threads);

namespace lion::cpu {
namespace {

constexpr auto kSpin = std::chrono::microseconds(50);

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// oneDNN would otherwise start a team of OpenMP threads under each of ours. OpenMP keeps the number per thread.
void UseOneOpenMpThread() {
  thread_local bool done = false;
  if (!done) omp_set_num_threads(1);
  done = true;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  try {
    for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { WorkerMain(thread); });
  } catch (...) {
    Stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t count, Call call, const void* body) {
  UseOneOpenMpThread();
  if (workers_.empty() || count <= 1) {
    for (int64_t task = 0; task < count; ++task) call(body, task, 0);
    return;
  }
  call_ = call;
  body_ = body;
  count_ = count;
  next_ = 0;
  const uint64_t loop = loop_.load() + 1;
  loop_ = loop;
  if (sleepers_ > 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  }
  for (int64_t task = next_++; task < count; task = next_++) call(body, task, 0);
  loop_ = loop + 1;  // closed: who has not joined yet stays out
  while (inside_ > 0) Pause();
}

void ThreadPool::WorkOn(uint64_t loop, int thread) {
  // Joining first and checking then, so that Run either sees this worker inside or has closed the loop before.
  ++inside_;
  if (loop_ == loop) {
    const Call call = call_;
    const void* const body = body_;
    const int64_t count = count_;
    for (int64_t task = next_++; task < count; task = next_++) call(body, task, thread);
  }
  --inside_;
}

void ThreadPool::WorkerMain(int thread) {
  UseOneOpenMpThread();
  uint64_t done = 0;
  while (true) {
    auto deadline = std::chrono::steady_clock::now() + kSpin;
    uint64_t loop = loop_;
    while ((loop == done || loop % 2 == 0) && !stop_) {
      if (std::chrono::steady_clock::now() > deadline) {
        std::unique_lock<std::mutex> lock(mutex_);
        ++sleepers_;
        wake_.wait(lock, [&] {
          loop = loop_;
          return stop_ || (loop != done && loop % 2 == 1);
        });
        --sleepers_;
        break;
      }
      for (int i = 0; i < 16; ++i) Pause();
      loop = loop_;
    }
    if (stop_) return;
    WorkOn(loop, thread);
    done = loop;
  }
}

}  // namespace lion::cpu
