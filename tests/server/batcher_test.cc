#include "server/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/cord.h"
#include "tests/server/batcher_fixture.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(BatcherTest, BatchesFormWhileTheDeviceIsBusy) {
  Start(kOptions);
  Occupy(0);
  for (int i = 1; i <= 4; ++i) Submit(Entry(i, 3));
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3), ElementsAre(4)));
}

TEST_F(BatcherTest, ATaskBiggerThanTheBudgetRunsAlone) {
  Start(kOptions);
  Occupy(0);
  Submit(Entry(1, 4));
  Submit(Entry(2, 40));
  Submit(Entry(3, 4));
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST_F(BatcherTest, HigherPriorityRunsFirstAndFifoWithin) {
  Start(kOptions);
  Occupy(0);
  for (int i = 1; i <= 4; ++i) {
    Batcher::Entry entry = Entry(i, 5);
    entry.priority = i >= 3 ? 5 : 0;
    Submit(std::move(entry));
  }
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0), ElementsAre(3, 4), ElementsAre(1, 2)));
}

TEST_F(BatcherTest, ExpiredTasksAreDroppedUnrun) {
  Start(kOptions);
  Occupy(0);
  const int64_t now_ns = clock_.NowNs();
  Batcher::Entry expired = Entry(1, 1);
  expired.deadline_ns = now_ns + 100;
  Submit(std::move(expired));
  Batcher::Entry in_time = Entry(2, 1);
  in_time.deadline_ns = now_ns + 101;
  Submit(std::move(in_time));
  clock_.AdvanceTo(now_ns + 100);
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0), ElementsAre(2)));
  ASSERT_EQ(puppet_.dropped().size(), 1u);
  EXPECT_EQ(puppet_.dropped()[0].first, 1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(puppet_.dropped()[0].second));
}

TEST_F(BatcherTest, CancelledTasksAreDroppedUnrun) {
  Start(kOptions);
  Occupy(0);
  std::atomic<bool> cancelled = false;
  Batcher::Entry entry = Entry(1, 1);
  entry.cancelled = &cancelled;
  Submit(std::move(entry));
  cancelled = true;
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0)));
  ASSERT_EQ(puppet_.dropped().size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(puppet_.dropped()[0].second));
}

TEST_F(BatcherTest, AFullQueueRefusesAndSaysWhenToTryAgain) {
  // A batch of 10 tokens takes 50 ms: 0.2 tokens a millisecond.
  Start(kOptions, /*batch_takes_ns=*/50'000'000);
  Submit(Entry(1, 10));
  ASSERT_TRUE(batcher_->WaitIdle(kNever));
  const absl::StatusOr<Batcher::Reservation> most = batcher_->Reserve(100);
  ASSERT_TRUE(most.ok());
  const absl::Status refused = batcher_->Reserve(4).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("100 of 100 tokens"));
  ASSERT_TRUE(refused.GetPayload(kRetryPushbackPayload).has_value());
  EXPECT_EQ(std::string(*refused.GetPayload(kRetryPushbackPayload)), "20");
}

TEST_F(BatcherTest, PushbackIsClampedAndHasAGuessBeforeTheFirstBatch) {
  Start(kOptions);
  absl::StatusOr<Batcher::Reservation> most = batcher_->Reserve(100);
  ASSERT_TRUE(most.ok());
  EXPECT_EQ(std::string(*batcher_->Reserve(1).status().GetPayload(kRetryPushbackPayload)), "100");
  most = Batcher::Reservation();

  batcher_.reset();
  Start(kOptions, /*batch_takes_ns=*/1'000'000'000'000);
  Submit(Entry(0, 1));
  ASSERT_TRUE(batcher_->WaitIdle(kNever));
  most = batcher_->Reserve(100);
  EXPECT_EQ(std::string(*batcher_->Reserve(1).status().GetPayload(kRetryPushbackPayload)), "5000");
  most = Batcher::Reservation();

  batcher_.reset();
  Start(kOptions, /*batch_takes_ns=*/1'000);
  Submit(Entry(0, 1));
  ASSERT_TRUE(batcher_->WaitIdle(kNever));
  most = batcher_->Reserve(100);
  EXPECT_EQ(std::string(*batcher_->Reserve(1).status().GetPayload(kRetryPushbackPayload)), "10");
}

TEST_F(BatcherTest, WhatNeverFitsIsAnArgumentError) {
  Start(kOptions);
  const absl::Status refused = batcher_->Reserve(101).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--max-queue-tokens"));
}

TEST_F(BatcherTest, AFullQueueMakesRoomByDroppingTheDead) {
  Start(kOptions);
  Occupy(0);
  std::atomic<bool> cancelled = true;
  Batcher::Entry dead = Entry(1, 60);
  dead.cancelled = &cancelled;
  Submit(std::move(dead));
  Submit(Entry(2, 30));
  EXPECT_TRUE(batcher_->Reserve(70).ok());
  EXPECT_EQ(puppet_.dropped().size(), 1u);
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0), ElementsAre(2)));
}

TEST_F(BatcherTest, AReservationGivesItsRoomBack) {
  Start(kOptions);
  {
    absl::StatusOr<Batcher::Reservation> room = batcher_->Reserve(100);
    ASSERT_TRUE(room.ok());
    const Batcher::Reservation part = room->Split(30);
    EXPECT_EQ(room->tokens(), 70);
    EXPECT_EQ(batcher_->reserved_tokens(), 100);
  }
  EXPECT_EQ(batcher_->reserved_tokens(), 0);
}

TEST_F(BatcherTest, DrainRefusesNewWorkAndFinishesWhatWasAccepted) {
  Start(kOptions);
  Occupy(0);
  Submit(Entry(1, 1));
  Batcher::Entry still_decoding = Entry(2, 1);
  batcher_->Drain();
  EXPECT_TRUE(absl::IsUnavailable(batcher_->Reserve(1).status()));
  EXPECT_FALSE(batcher_->WaitIdle(clock_.NowNs()));
  Submit(std::move(still_decoding));
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0), ElementsAre(1, 2)));
}

TEST_F(BatcherTest, TheDestructorFinishesWhatWasAccepted) {
  Start(kOptions);
  Occupy(0);
  for (int i = 1; i <= 20; ++i) Submit(Entry(i, 1));
  puppet_.Hold(false);
  batcher_.reset();
  size_t ran = 0;
  for (const std::vector<int>& batch : puppet_.batches()) ran += batch.size();
  EXPECT_EQ(ran, 21u);
}

TEST_F(BatcherTest, MaxWaitHoldsAnIdleDeviceUntilItsTime) {
  BatcherOptions options = kOptions;
  options.limits.max_wait_ns = 1000;
  Start(options);
  const int64_t arrival_ns = clock_.NowNs();
  Submit(Entry(1, 1));
  clock_.AwaitWaiter();
  clock_.AdvanceTo(arrival_ns + 999);
  Submit(Entry(2, 1));
  clock_.AwaitWaiter();
  EXPECT_TRUE(puppet_.batches().empty());
  clock_.AdvanceTo(arrival_ns + 1000);
  puppet_.AwaitRunning(1);
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(1, 2)));
}

TEST_F(BatcherTest, WhatExpiresDuringMaxWaitIsDroppedAtItsDeadline) {
  BatcherOptions options = kOptions;
  options.limits.max_wait_ns = 1000;
  Start(options);
  Batcher::Entry entry = Entry(1, 1);
  entry.deadline_ns = clock_.NowNs() + 500;
  Submit(std::move(entry));
  clock_.AwaitWaiter();
  clock_.AdvanceTo(clock_.NowNs() + 500);
  puppet_.AwaitDropped(1);
  EXPECT_TRUE(puppet_.batches().empty());
}

TEST_F(BatcherTest, OneTurnIsSharedByTwoBatchers) {
  Start(kOptions);
  std::atomic<int> others = 0;
  absl::StatusOr<std::unique_ptr<Batcher>> other =
      Batcher::Create(kOptions, &clock_, &turn_, [&others](Batch) { ++others; });
  ASSERT_TRUE(other.ok());
  Occupy(0);
  std::vector<Batcher::Entry> entries(1);
  entries[0].reservation = *(*other)->Reserve(1);
  entries[0].task = std::make_unique<NumberedTask>(&puppet_, 9);
  (*other)->Submit(std::move(entries));
  EXPECT_EQ(others, 0) << "the device is taken";
  Finish();
  ASSERT_TRUE((*other)->WaitIdle(kNever));
  EXPECT_EQ(others, 1);
}

TEST_F(BatcherTest, SixteenThreadsLoseNothingAndRunNothingTwice) {
  constexpr int kThreads = 16;
  constexpr int kPerThread = 500;
  Start({.limits = {.max_tokens = 64}, .max_queue_tokens = 1000});
  const std::atomic<bool> cancelled = true;
  std::atomic<int> accepted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPerThread; ++i) {
        absl::StatusOr<Batcher::Reservation> room = batcher_->Reserve(1 + i % 7);
        if (!room.ok()) {
          EXPECT_TRUE(absl::IsResourceExhausted(room.status())) << room.status();
          continue;
        }
        Batcher::Entry entry;
        entry.reservation = *std::move(room);
        entry.priority = i % 10;
        if (i % 5 == 0) entry.cancelled = &cancelled;
        entry.task = std::make_unique<NumberedTask>(&puppet_, t * kPerThread + i);
        Submit(std::move(entry));
        ++accepted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Finish();
  std::vector<int> seen(kThreads * kPerThread);
  for (const std::vector<int>& batch : puppet_.batches()) {
    for (const int number : batch) {
      EXPECT_NE(number % 5, 0) << "a cancelled task ran";
      ++seen[static_cast<size_t>(number)];
    }
  }
  for (const auto& [number, why] : puppet_.dropped()) ++seen[static_cast<size_t>(number)];
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), accepted);
  EXPECT_EQ(*std::max_element(seen.begin(), seen.end()), 1);
  EXPECT_EQ(batcher_->reserved_tokens(), 0);
}

}  // namespace
}  // namespace lion
