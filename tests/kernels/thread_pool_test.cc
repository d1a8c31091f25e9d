#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace lion::cpu {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceAndNoTwoOnOneThreadAtATime) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> runs(1000);
  std::vector<std::atomic<int>> inside(4);
  for (int loop = 0; loop < 500; ++loop) {
    pool.ParallelFor(loop * 2, [&](int64_t task, int thread) {
      EXPECT_EQ(inside[thread].fetch_add(1), 0);
      ++runs[task];
      --inside[thread];
    });
  }
  for (int64_t task = 0; task < 1000; ++task) EXPECT_EQ(runs[task], 499 - task / 2);
}

TEST(ThreadPool, WakesThreadsThatSleep) {
  ThreadPool pool(3);
  for (int loop = 0; loop < 20; ++loop) {
    // Longer than the threads spin: by now they sleep, or are about to.
    std::this_thread::sleep_for(std::chrono::microseconds(30 * (loop % 10)));
    std::atomic<int> arrived{0};
    // Each task waits for all three: the loop only ends when every thread takes one.
    pool.ParallelFor(3, [&](int64_t, int) {
      ++arrived;
      while (arrived < 3) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 3);
  }
}

TEST(ThreadPool, OneThreadAndNoTaskAreFine) {
  ThreadPool pool(1);
  int runs = 0;
  pool.ParallelFor(0, [&](int64_t, int) { ++runs; });
  EXPECT_EQ(runs, 0);
  pool.ParallelFor(3, [&](int64_t, int thread) {
    EXPECT_EQ(thread, 0);
    ++runs;
  });
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace lion::cpu
