// Threads of a preparing pool that hang until told: a decode or a tokenizer that does not come to an end.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "server/prepare_pool.h"

namespace lion {

// For one thread.
class HeldThreads {
 public:
  ~HeldThreads() { Release(); }

  // Returns once so many of the pool's threads hang. The pool must have nothing else to do.
  void Hold(PreparePool* pool, int threads) {
    released_ = false;
    const auto wait = [this](const absl::Status&) {
      ++held_;
      while (!released_) std::this_thread::yield();
      --held_;
    };
    for (int i = 0; i < threads; ++i) ASSERT_TRUE(pool->Submit({{.work = 1, .run = wait}}, 0).ok());
    while (held_ < threads) std::this_thread::yield();
  }
  // Returns once they have gone on.
  void Release() {
    released_ = true;
    while (held_ > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> held_ = 0;
  std::atomic<bool> released_ = false;
};

}  // namespace lion
