// The order in which inputs are prepared, without threads or time.
#include "server/prepare_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace lion {
namespace {

constexpr int64_t kBig = int64_t{256} << 20;
constexpr int64_t kSmall = 784;  // counts as kImageKind.least_work

class PrepareQueueTest : public ::testing::Test {
 protected:
  // A call of inputs of so much work; each is known by the call's letter.
  void Call(char letter, const std::vector<int64_t>& work, int priority = 0) {
    std::vector<PrepareJob> jobs;
    for (const int64_t count : work) {
      jobs.push_back({.work = count, .run = [this, letter](const absl::Status&) { prepared_ += letter; }});
    }
    queue_.Push(std::move(jobs), priority);
  }
  void Prepare(int inputs) {
    for (int i = 0; i < inputs; ++i) queue_.Pop().run(absl::OkStatus());
  }
  // All that wait, in order.
  std::string PrepareAll() {
    while (!queue_.empty()) Prepare(1);
    return std::exchange(prepared_, "");
  }

  PrepareQueue queue_{kImageKind};
  std::string prepared_;
};

TEST_F(PrepareQueueTest, OneCallAfterTheOtherWhenAllAreAlike) {
  Call('a', {1'000'000});
  Call('b', {1'000'000});
  Call('c', {1'000'000});
  EXPECT_EQ(PrepareAll(), "abc");
}

TEST_F(PrepareQueueTest, CallsTakeTurnsByWork) {
  Call('a', {100'000, 100'000, 100'000, 100'000});
  Call('b', {200'000, 200'000});
  EXPECT_EQ(PrepareAll(), "aabaab");
}

TEST_F(PrepareQueueTest, AnInputOfACallKeepsItsPlaceInTheCall) {
  std::vector<PrepareJob> jobs;
  for (const auto& [work, letter] : {std::pair(kBig, '1'), std::pair(kSmall, '2'), std::pair(int64_t{0}, '3')}) {
    jobs.push_back({.work = work, .run = [this, letter = letter](const absl::Status&) { prepared_ += letter; }});
  }
  queue_.Push(std::move(jobs), 0);
  EXPECT_EQ(PrepareAll(), "123");
}

// 33 KB of request can hold forty images of this size.
TEST_F(PrepareQueueTest, ASmallInputOfANewCallComesBeforeABulkCallsNext) {
  for (const int prepared_before : {0, 1, 2, 8, 39}) {
    Call('b', std::vector<int64_t>(40, kBig));
    Prepare(prepared_before);
    prepared_ = "";
    Call('s', {kSmall});
    Prepare(1);
    EXPECT_EQ(prepared_, "s") << "after " << prepared_before;
    PrepareAll();
  }
}

TEST_F(PrepareQueueTest, ASmallInputComesBeforeManyCallsOfOneLargeInputEach) {
  for (int i = 0; i < 4; ++i) Call('b', {kBig});
  Call('s', {kSmall});
  Prepare(1);
  EXPECT_EQ(std::exchange(prepared_, ""), "s");
  for (int left = 4; left > 0; --left) {
    Prepare(1);
    Call('s', {kSmall});
    Prepare(1);
    EXPECT_EQ(std::exchange(prepared_, ""), "bs") << left;
  }
}

TEST_F(PrepareQueueTest, ACallThatWasServedAloneOwesNothing) {
  Call('a', std::vector<int64_t>(20, 1'000'000));
  Prepare(10);
  prepared_ = "";
  Call('n', std::vector<int64_t>(10, 1'000'000));
  // The newcomer makes up for nothing it did not ask for earlier: from now on they take turns.
  const std::string order = PrepareAll();
  for (size_t i = 0; i + 1 < order.size(); i += 2) EXPECT_NE(order[i], order[i + 1]) << order;
}

TEST_F(PrepareQueueTest, APriorityIsWorthItsHeadStartAndNoMore) {
  constexpr int64_t kStep = kImageKind.priority_step;
  Call('a', {10 * kStep});
  Call('b', {11 * kStep - 1}, /*priority=*/1);
  Call('c', {12 * kStep + 1}, /*priority=*/2);
  EXPECT_EQ(PrepareAll(), "bac");
  Call('l', {kStep}, kMaxPriority);
  Call('h', {kStep}, kMaxPriority + 100);
  EXPECT_EQ(PrepareAll(), "lh") << "no head start beyond the highest priority";
}

TEST_F(PrepareQueueTest, NothingStarves) {
  for (const int priority : {0, kMaxPriority}) {
    Call('b', {kBig});
    // The bound of the header, with two calls waiting at any time.
    const int64_t bound = 2 * 2 * (kBig + kMaxPriority * kImageKind.priority_step);
    constexpr int64_t kWork = 1'000'000;
    int64_t overtaken = 0;
    while (prepared_.find('b') == std::string::npos) {
      Call('n', {kWork}, priority);
      Prepare(1);
      overtaken += kWork;
      ASSERT_LE(overtaken, bound + kWork);
    }
    EXPECT_GT(overtaken, kBig) << "a small input of a new call comes first for a while";
    PrepareAll();
  }
}

TEST_F(PrepareQueueTest, WhatIsDeadIsTakenOutAndItsWorkWithIt) {
  std::atomic<bool> cancelled = false;
  queue_.Push({{.work = 10'000, .deadline_ns = 100}, {.work = 20'000, .cancelled = &cancelled}}, 0);
  queue_.Push({{.work = 25'000}}, 0);
  queue_.Push({{.work = 1, .deadline_ns = 100}}, 0);
  EXPECT_EQ(queue_.work(), 55'000 + kImageKind.least_work);
  std::vector<PrepareQueue::Dropped> dropped;
  queue_.DropDead(99, &dropped);
  EXPECT_TRUE(dropped.empty());
  cancelled = true;
  // The first and the last in order have expired; of the front only as far as something is wanted.
  queue_.DropDeadFront(100, &dropped);
  ASSERT_EQ(dropped.size(), 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(dropped[0].why)) << dropped[0].why;
  EXPECT_EQ(queue_.work(), 45'000);
  queue_.DropDead(100, &dropped);
  ASSERT_EQ(dropped.size(), 3u);
  EXPECT_TRUE(absl::IsCancelled(dropped[2].why)) << dropped[2].why;
  EXPECT_EQ(dropped[2].job.work, 20'000);
  EXPECT_EQ(queue_.work(), 25'000);
  EXPECT_EQ(queue_.Pop().work, 25'000);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.work(), 0);
}

}  // namespace
}  // namespace lion
