// The order in which images are decoded, without threads or time.
#include "server/decode_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace lion {
namespace {

constexpr int64_t kBig = int64_t{256} << 20;
constexpr int64_t kSmall = 784;  // counts as kMinDecodePixels

class DecodeQueueTest : public ::testing::Test {
 protected:
  // A call of images of so many pixels; each is known by the call's letter.
  void Call(char letter, const std::vector<int64_t>& pixels, int priority = 0) {
    std::vector<DecodeJob> jobs;
    for (const int64_t count : pixels) {
      jobs.push_back({.pixels = count, .run = [this, letter](const absl::Status&) { decoded_ += letter; }});
    }
    queue_.Push(std::move(jobs), priority);
  }
  void Decode(int images) {
    for (int i = 0; i < images; ++i) queue_.Pop().run(absl::OkStatus());
  }
  // All that wait, in order.
  std::string DecodeAll() {
    while (!queue_.empty()) Decode(1);
    return std::exchange(decoded_, "");
  }

  DecodeQueue queue_;
  std::string decoded_;
};

TEST_F(DecodeQueueTest, OneCallAfterTheOtherWhenAllAreAlike) {
  Call('a', {1'000'000});
  Call('b', {1'000'000});
  Call('c', {1'000'000});
  EXPECT_EQ(DecodeAll(), "abc");
}

TEST_F(DecodeQueueTest, CallsTakeTurnsByPixels) {
  Call('a', {100'000, 100'000, 100'000, 100'000});
  Call('b', {200'000, 200'000});
  EXPECT_EQ(DecodeAll(), "aabaab");
}

TEST_F(DecodeQueueTest, AnImageOfACallKeepsItsPlaceInTheCall) {
  std::vector<DecodeJob> jobs;
  for (const auto& [pixels, letter] : {std::pair(kBig, '1'), std::pair(kSmall, '2'), std::pair(int64_t{0}, '3')}) {
    jobs.push_back({.pixels = pixels, .run = [this, letter = letter](const absl::Status&) { decoded_ += letter; }});
  }
  queue_.Push(std::move(jobs), 0);
  EXPECT_EQ(DecodeAll(), "123");
}

// 33 KB of request can hold forty images of this size.
TEST_F(DecodeQueueTest, ASmallImageOfANewCallComesBeforeABulkCallsNext) {
  for (const int decoded_before : {0, 1, 2, 8, 39}) {
    Call('b', std::vector<int64_t>(40, kBig));
    Decode(decoded_before);
    decoded_ = "";
    Call('s', {kSmall});
    Decode(1);
    EXPECT_EQ(decoded_, "s") << "after " << decoded_before;
    DecodeAll();
  }
}

TEST_F(DecodeQueueTest, ASmallImageComesBeforeManyCallsOfOneLargeImageEach) {
  for (int i = 0; i < 4; ++i) Call('b', {kBig});
  Call('s', {kSmall});
  Decode(1);
  EXPECT_EQ(std::exchange(decoded_, ""), "s");
  for (int left = 4; left > 0; --left) {
    Decode(1);
    Call('s', {kSmall});
    Decode(1);
    EXPECT_EQ(std::exchange(decoded_, ""), "bs") << left;
  }
}

TEST_F(DecodeQueueTest, ACallThatWasServedAloneOwesNothing) {
  Call('a', std::vector<int64_t>(20, 1'000'000));
  Decode(10);
  decoded_ = "";
  Call('n', std::vector<int64_t>(10, 1'000'000));
  // The newcomer makes up for nothing it did not ask for earlier: from now on they take turns.
  const std::string order = DecodeAll();
  for (size_t i = 0; i + 1 < order.size(); i += 2) EXPECT_NE(order[i], order[i + 1]) << order;
}

TEST_F(DecodeQueueTest, APriorityIsWorthItsHeadStartAndNoMore) {
  constexpr int64_t kStep = kDecodePriorityStepPixels;
  Call('a', {10 * kStep});
  Call('b', {11 * kStep - 1}, /*priority=*/1);
  Call('c', {12 * kStep + 1}, /*priority=*/2);
  EXPECT_EQ(DecodeAll(), "bac");
  Call('l', {kStep}, kMaxPriority);
  Call('h', {kStep}, kMaxPriority + 100);
  EXPECT_EQ(DecodeAll(), "lh") << "no head start beyond the highest priority";
}

TEST_F(DecodeQueueTest, NothingStarves) {
  for (const int priority : {0, kMaxPriority}) {
    Call('b', {kBig});
    // The bound of the header, with two calls waiting at any time.
    const int64_t bound = 2 * 2 * (kBig + kMaxPriority * kDecodePriorityStepPixels);
    constexpr int64_t kPixels = 1'000'000;
    int64_t overtaken = 0;
    while (decoded_.find('b') == std::string::npos) {
      Call('n', {kPixels}, priority);
      Decode(1);
      overtaken += kPixels;
      ASSERT_LE(overtaken, bound + kPixels);
    }
    EXPECT_GT(overtaken, kBig) << "a small image of a new call comes first for a while";
    DecodeAll();
  }
}

TEST_F(DecodeQueueTest, WhatIsDeadIsTakenOutAndItsPixelsWithIt) {
  std::atomic<bool> cancelled = false;
  queue_.Push({{.pixels = 10'000, .deadline_ns = 100}, {.pixels = 20'000, .cancelled = &cancelled}}, 0);
  queue_.Push({{.pixels = 25'000}}, 0);
  queue_.Push({{.pixels = 1, .deadline_ns = 100}}, 0);
  EXPECT_EQ(queue_.pixels(), 55'000 + kMinDecodePixels);
  std::vector<DecodeQueue::Dropped> dropped;
  queue_.DropDead(99, &dropped);
  EXPECT_TRUE(dropped.empty());
  cancelled = true;
  // The first and the last in order have expired; of the front only as far as something is wanted.
  queue_.DropDeadFront(100, &dropped);
  ASSERT_EQ(dropped.size(), 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(dropped[0].why)) << dropped[0].why;
  EXPECT_EQ(queue_.pixels(), 45'000);
  queue_.DropDead(100, &dropped);
  ASSERT_EQ(dropped.size(), 3u);
  EXPECT_TRUE(absl::IsCancelled(dropped[2].why)) << dropped[2].why;
  EXPECT_EQ(dropped[2].job.pixels, 20'000);
  EXPECT_EQ(queue_.pixels(), 25'000);
  EXPECT_EQ(queue_.Pop().pixels, 25'000);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.pixels(), 0);
}

}  // namespace
}  // namespace lion
