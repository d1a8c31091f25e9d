// Room that inputs share until their tokens are counted.
#include "server/call_room.h"

#include <gtest/gtest.h>

#include <optional>
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
  std::shared_ptr<CallRoom> Room(int64_t tokens, int64_t most_tokens) {
    absl::StatusOr<Batcher::Reservation> room = batcher_->Reserve(tokens);
    EXPECT_TRUE(room.ok()) << room.status();
    return std::make_shared<CallRoom>(*std::move(room), most_tokens);
  }

  FakeClock clock_;
  std::unique_ptr<Batcher> batcher_;
};

TEST_F(CallRoomTest, WhatAnInputDoesNotNeedGoesBackAtOnce) {
  std::optional<CallRoom::Claim> first;
  std::optional<CallRoom::Claim> second;
  {
    const std::shared_ptr<CallRoom> room = Room(50, 50);
    first.emplace(room, 30);
    second.emplace(room, 20);
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
  const std::shared_ptr<CallRoom> room = Room(100, 300);
  CallRoom::Claim first(room, 150);
  CallRoom::Claim second(room, 50);
  std::optional<CallRoom::Claim> third(std::in_place, room, 100);
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
  const std::shared_ptr<CallRoom> room = Room(100, 200);
  CallRoom::Claim first(room, 100);
  CallRoom::Claim second(room, 100);
  absl::StatusOr<Batcher::Reservation> taken = first.Take(60);
  ASSERT_TRUE(taken.ok()) << taken.status();
  const absl::Status refused = second.Take(41).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_NE(refused.message().find("41 tokens"), absl::string_view::npos) << refused;
  EXPECT_NE(refused.message().find("have left 40"), absl::string_view::npos) << refused;
}

}  // namespace
}  // namespace lion
