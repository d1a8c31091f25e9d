// The preparing threads: order, memory, room, and what is dropped.
#include "server/prepare_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "server/pushback.h"
#include "tests/server/fake_clock.h"

namespace lion {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

class PreparePoolTest : public ::testing::Test {
 protected:
  // Jobs leave their name, or their error's, behind. One named "hold..." then waits until Release.
  PrepareJob Job(const std::string& name, int64_t work, int64_t bytes = 1) {
    return {.work = work, .bytes = bytes, .run = [this, name](const absl::Status& dropped) {
              MutexLock lock(mutex_);
              log_.push_back(dropped.ok() ? name : name + " " + absl::StatusCodeToString(dropped.code()));
              changed_.NotifyAll();
              while (dropped.ok() && name.rfind("hold", 0) == 0 && !released_) changed_.Wait(mutex_);
            }};
  }
  std::vector<std::string> AwaitLog(size_t count) {
    MutexLock lock(mutex_);
    while (log_.size() < count) changed_.Wait(mutex_);
    return log_;
  }
  void Release() {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.NotifyAll();
  }
  absl::Status Submit(PreparePool& pool, PrepareJob job, int priority = 0) {
    std::vector<PrepareJob> jobs;
    jobs.push_back(std::move(job));
    return pool.Submit(std::move(jobs), priority);
  }

  FakeClock clock_;
  FairBudget bytes_{100};
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

using Log = std::vector<std::string>;

TEST_F(PreparePoolTest, RunsEverythingBeforeItEnds) {
  {
    PreparePool pool({.threads = 3}, &clock_, &bytes_);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(Submit(pool, Job("x", 1, 40)).ok());
  }
  EXPECT_EQ(AwaitLog(100).size(), 100u);
  EXPECT_EQ(bytes_.in_use(), 0);
}

TEST_F(PreparePoolTest, ASmallInputWaitsOnlyForWhatIsRunning) {
  PreparePool pool({.threads = 1}, &clock_, &bytes_);
  ASSERT_TRUE(Submit(pool, Job("hold", 256 * kMiB)).ok());
  AwaitLog(1);
  std::vector<PrepareJob> bulk;
  bulk.push_back(Job("big", 256 * kMiB));
  bulk.push_back(Job("big", 256 * kMiB));
  ASSERT_TRUE(pool.Submit(std::move(bulk), 0).ok());
  ASSERT_TRUE(Submit(pool, Job("small", 784)).ok());
  ASSERT_TRUE(Submit(pool, Job("urgent", 784), kMaxPriority).ok());
  Release();
  EXPECT_EQ(AwaitLog(5), (Log{"hold", "urgent", "small", "big", "big"}));
}

TEST_F(PreparePoolTest, WhatWaitsForMemoryHoldsNoThread) {
  PreparePool pool({.threads = 2}, &clock_, &bytes_);
  ASSERT_TRUE(Submit(pool, Job("hold", kMiB, /*bytes=*/50)).ok());
  AwaitLog(1);
  ASSERT_TRUE(Submit(pool, Job("big", 256 * kMiB, /*bytes=*/60)).ok());
  // Before the large one in order, so that it may go first; and behind it, so that it may not.
  ASSERT_TRUE(Submit(pool, Job("small", 784, /*bytes=*/10)).ok());
  EXPECT_EQ(AwaitLog(2), (Log{"hold", "small"}));
  ASSERT_TRUE(Submit(pool, Job("behind", 512 * kMiB, /*bytes=*/45)).ok());
  Release();
  EXPECT_EQ(AwaitLog(4), (Log{"hold", "small", "big", "behind"}));
}

TEST_F(PreparePoolTest, MemoryOverTheBudgetIsHadAlone) {
  {
    PreparePool pool({.threads = 4}, &clock_, &bytes_);
    ASSERT_TRUE(Submit(pool, Job("hold", kMiB, /*bytes=*/1)).ok());
    AwaitLog(1);
    ASSERT_TRUE(Submit(pool, Job("huge", kMiB, /*bytes=*/1000)).ok());
    Release();
  }
  EXPECT_EQ(AwaitLog(2), (Log{"hold", "huge"}));
}

TEST_F(PreparePoolTest, WhatNobodyWaitsForIsDroppedUnprepared) {
  std::atomic<bool> cancelled = false;
  PreparePool pool({.threads = 1}, &clock_, &bytes_);
  ASSERT_TRUE(Submit(pool, Job("hold", 1)).ok());
  AwaitLog(1);
  PrepareJob expires = Job("expires", 1);
  expires.deadline_ns = clock_.NowNs() + 10;
  ASSERT_TRUE(Submit(pool, std::move(expires)).ok());
  PrepareJob cancels = Job("cancels", 1);
  cancels.cancelled = &cancelled;
  ASSERT_TRUE(Submit(pool, std::move(cancels)).ok());
  ASSERT_TRUE(Submit(pool, Job("last", kMiB)).ok());
  cancelled = true;
  clock_.AdvanceTo(clock_.NowNs() + 10);
  Release();
  EXPECT_EQ(AwaitLog(4), (Log{"hold", "expires DEADLINE_EXCEEDED", "cancels CANCELLED", "last"}));
}

TEST_F(PreparePoolTest, AFullQueueRefusesWithPushbackAndTakesTheRoomOfTheDead) {
  std::atomic<bool> cancelled = false;
  PreparePool pool({.threads = 1, .max_queue_work = 10 * kMiB}, &clock_, &bytes_);
  // Runs at once: it does not wait.
  ASSERT_TRUE(Submit(pool, Job("hold", 10 * kMiB)).ok());
  AwaitLog(1);
  PrepareJob cancels = Job("cancels", 6 * kMiB);
  cancels.cancelled = &cancelled;
  ASSERT_TRUE(Submit(pool, std::move(cancels)).ok());
  ASSERT_TRUE(Submit(pool, Job("fits", 4 * kMiB)).ok());
  EXPECT_EQ(pool.waiting_work(), 10 * kMiB);
  const absl::Status full = Submit(pool, Job("refused", 1));
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("--max-queue-pixels"));
  ASSERT_TRUE(full.GetPayload(kRetryPushbackPayload).has_value());
  EXPECT_EQ(std::string(*full.GetPayload(kRetryPushbackPayload)), "100") << "no speed is known yet";
  cancelled = true;
  EXPECT_TRUE(Submit(pool, Job("late", 5 * kMiB)).ok());
  EXPECT_EQ(pool.waiting_work(), 9 * kMiB);
  Release();
  EXPECT_EQ(AwaitLog(4), (Log{"hold", "cancels CANCELLED", "fits", "late"}));
}

TEST_F(PreparePoolTest, ACallThatNeverFitsIsAnArgumentErrorButASingleInputAlwaysFits) {
  PreparePool pool({.threads = 1, .max_queue_work = 10 * kMiB}, &clock_, &bytes_);
  std::vector<PrepareJob> call;
  call.push_back(Job("first", 6 * kMiB));
  call.push_back(Job("second", 6 * kMiB));
  const absl::Status never = pool.Submit(std::move(call), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(never)) << never;
  EXPECT_THAT(std::string(never.message()), HasSubstr("--max-queue-pixels"));
  EXPECT_TRUE(Submit(pool, Job("alone", 20 * kMiB)).ok());
  EXPECT_EQ(AwaitLog(1), Log{"alone"}) << "what was refused does not run";
}

}  // namespace
}  // namespace lion
