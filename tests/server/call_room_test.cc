// Room that inputs share until their tokens are counted.
#include "server/call_room.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>

#include "tests/server/fake_clock.h"

namespace lion {
namespace {

class CallRoomTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Batcher>> batcher =
        Batcher::Create({.max_queue_tokens = 100}, &clock_, nullptr, [](const Batch&) {});
    ASSERT_TRUE(batcher.ok()) << batcher.status();
    batcher_ = *std::move(batcher);
  }
  std::shared_ptr<CallRoom> Room(int64_t tokens, const TokenNeed& need) {
    absl::StatusOr<Batcher::Reservation> room = batcher_->Reserve(tokens);
    EXPECT_TRUE(room.ok()) << room.status();
    return std::make_shared<CallRoom>(*std::move(room), need, 100);
  }

  FakeClock clock_;
  std::unique_ptr<Batcher> batcher_;
};

TEST_F(CallRoomTest, WhatAnInputDoesNotNeedGoesBackAtOnce) {
  std::optional<CallRoom::Claim> first;
  std::optional<CallRoom::Claim> second;
  {
    const std::shared_ptr<CallRoom> room = Room(50, {2, 50});
    first.emplace(room, TokenNeed{1, 30});
    second.emplace(room, TokenNeed{1, 20});
  }
  absl::StatusOr<Batcher::Reservation> taken = first->Take(7);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->tokens(), 7);
  EXPECT_EQ(batcher_->reserved_tokens(), 7 + 20);
  second.reset();
  EXPECT_EQ(batcher_->reserved_tokens(), 7) << "given up";
  *taken = Batcher::Reservation();
  EXPECT_EQ(batcher_->reserved_tokens(), 0);
}

TEST_F(CallRoomTest, LessRoomThanTheClaimsIsKeptWhileItMayBeNeeded) {
  const std::shared_ptr<CallRoom> room = Room(100, {3, 300});
  CallRoom::Claim first(room, {1, 150});
  CallRoom::Claim second(room, {1, 50});
  std::optional<CallRoom::Claim> third(std::in_place, room, TokenNeed{1, 100});
  absl::StatusOr<Batcher::Reservation> taken = first.Take(30);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(batcher_->reserved_tokens(), 100) << "the other two could need it all";
  third.reset();
  EXPECT_EQ(batcher_->reserved_tokens(), 30 + 50);
  absl::StatusOr<Batcher::Reservation> rest = second.Take(50);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(batcher_->reserved_tokens(), 30 + 50);
}

TEST_F(CallRoomTest, AnInputForWhichTheOthersLeftNoRoomIsRefused) {
  const std::shared_ptr<CallRoom> room = Room(100, {2, 200});
  CallRoom::Claim first(room, {1, 100});
  CallRoom::Claim second(room, {1, 100});
  absl::StatusOr<Batcher::Reservation> taken = first.Take(60);
  ASSERT_TRUE(taken.ok()) << taken.status();
  const absl::Status refused = second.Take(41).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_NE(refused.message().find("41 tokens"), absl::string_view::npos) << refused;
  EXPECT_NE(refused.message().find("have left 40"), absl::string_view::npos) << refused;
}

TEST_F(CallRoomTest, AnInputTakesTheMissingRoomFromTheQueue) {
  const std::shared_ptr<CallRoom> room = Room(20, {2, 200});
  CallRoom::Claim first(room, {1, 100});
  const CallRoom::Claim second(room, {1, 100});
  absl::StatusOr<Batcher::Reservation> taken = first.Take(60);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->tokens(), 60);
  EXPECT_EQ(batcher_->reserved_tokens(), 60 + 1) << "the least of the other is still there";
}

TEST_F(CallRoomTest, AlsoWhileTheQueueDrains) {
  CallRoom::Claim claim(Room(20, {1, 100}), {1, 100});
  batcher_->Drain();
  absl::StatusOr<Batcher::Reservation> taken = claim.Take(60);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->tokens(), 60);
}

TEST_F(CallRoomTest, AFullQueueIsAPushbackThatLeavesTheClaim) {
  std::optional<CallRoom::Claim> claim(std::in_place, Room(20, {1, 100}), TokenNeed{1, 100});
  absl::StatusOr<Batcher::Reservation> others = batcher_->Reserve(50);
  ASSERT_TRUE(others.ok());
  const absl::Status refused = claim->Take(51).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(refused.GetPayload(kRetryPushbackPayload).has_value());
  EXPECT_EQ(batcher_->reserved_tokens(), 20 + 50) << "the batcher stays until the input has been told";
  claim.reset();
  EXPECT_EQ(batcher_->reserved_tokens(), 50);
}

// What is given back last lets the batcher go; under AddressSanitizer nothing may touch it after that.
class LastOfCallRoomTest : public CallRoomTest {
 protected:
  // Runs `last`, which gives the last room back, until the batcher is gone.
  template <class Function>
  void DestroyBatcherDuring(Function last) {
    std::thread destroyer([this] { batcher_.reset(); });
    last();
    destroyer.join();
  }
};

TEST_F(LastOfCallRoomTest, RoomWithoutTokensKeepsNoBatcher) {
  absl::StatusOr<Batcher::Reservation> room = batcher_->Reserve(10);
  ASSERT_TRUE(room.ok());
  std::optional<Batcher::Reservation> all = room->Split(10);
  const Batcher::Reservation none = room->Split(0);
  DestroyBatcherDuring([&] { all.reset(); });
}

TEST_F(LastOfCallRoomTest, AClaimThatIsGivenUp) {
  std::optional<CallRoom::Claim> claim(std::in_place, Room(20, {1, 100}), TokenNeed{1, 100});
  DestroyBatcherDuring([&] { claim.reset(); });
}

TEST_F(LastOfCallRoomTest, AClaimThatGotNoRoom) {
  std::optional<CallRoom::Claim> claim(std::in_place, Room(20, {1, 200}), TokenNeed{1, 200});
  ASSERT_TRUE(absl::IsInvalidArgument(claim->Take(101).status()));
  EXPECT_EQ(batcher_->reserved_tokens(), 20);
  DestroyBatcherDuring([&] { claim.reset(); });
}

TEST_F(LastOfCallRoomTest, AnInputThatIsStillToBeTokenizedKeepsTheBatcher) {
  const std::shared_ptr<CallRoom> room = Room(100, {2, 200});
  std::optional<CallRoom::Claim> first(std::in_place, room, TokenNeed{1, 100});
  const CallRoom::Claim second(room, {1, 100});
  {
    const absl::StatusOr<Batcher::Reservation> taken = first->Take(99);
    ASSERT_TRUE(taken.ok()) << taken.status();
  }
  EXPECT_FALSE(batcher_->WaitIdle(clock_.NowNs())) << "the other has nothing left to keep it by";
}

}  // namespace
}  // namespace lion
