// The threads of one engine: parallel loops without allocation, one loop at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace lion::cpu {

// Runs the tasks of a loop on the calling thread and threads - 1 others. Between loops the others spin for some tens of
// microseconds (the next loop of a forward pass comes sooner than the kernel could wake them), then sleep: an idle
// engine costs nothing. Each of them keeps oneDNN to one OpenMP thread.
//
// Thread-compatible: ParallelFor is called by one thread at a time, never from inside a task.
class ThreadPool {
 public:
  // Throws std::system_error when the system has no more threads to give.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(task, thread) once for each task in [0, count), in any order, and returns when all have returned;
  // thread is in [0, threads()) and no two tasks run at once with the same one. `body` must not throw.
  template <typename Body>
  void ParallelFor(int64_t count, const Body& body) {
    Run(
        count, [](const void* object, int64_t task, int thread) { (*static_cast<const Body*>(object))(task, thread); },
        &body);
  }

 private:
  using Call = void (*)(const void* body, int64_t task, int thread);

  void Run(int64_t count, Call call, const void* body);
  void Stop();
  void WorkOn(uint64_t loop, int thread);
  void WorkerMain(int thread);

  // A loop is published by storing its parameters, then its number: odd numbers are open for joining.
  std::atomic<uint64_t> loop_{0};
  std::atomic<int> inside_{0};  // workers that may still touch the parameters
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> count_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> body_{nullptr};
  std::atomic<bool> stop_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace lion::cpu
