#include "server/fair_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/batch_policy.h"

namespace lion {
namespace {

constexpr int64_t kStep = 1000;

// A queue in FairOrder's order, and what each caller was served.
class Simulation {
 public:
  struct Piece {
    uint64_t caller = 0;
    int64_t work = 0;
    int priority = 0;
    FairOrder::Place place;
    int64_t own_before = 0;                         // of its caller's when it came, dropped work included
    std::map<uint64_t, int64_t> served_at_arrival;  // caller -> work
  };

  void Push(uint64_t caller, int64_t work, int priority = 0) {
    Piece piece = {
        caller, work, priority, order_.Enter(caller, work, priority), waiting_work_[caller] + dropped_work_[caller],
        {}};
    if (served_.size() < 10) piece.served_at_arrival = served_;
    waiting_work_[caller] += work;
    queue_.emplace(std::pair(piece.place.order, next_++), std::move(piece));
  }
  Piece Pop() {
    Piece piece = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    waiting_work_[piece.caller] -= piece.work;
    order_.Serve(piece.place);
    served_[piece.caller] += piece.work;
    if (queue_.empty()) dropped_work_.clear();
    return piece;
  }
  // The first `count` of that caller's.
  void DropSomeOf(uint64_t caller, int count) {
    std::vector<std::pair<int64_t, int>> keys;
    for (const auto& [key, piece] : queue_) {
      if (piece.caller == caller && count-- > 0) keys.push_back(key);
    }
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      order_.Drop(queue_.at(*key).place);
      waiting_work_[caller] -= queue_.at(*key).work;
      dropped_work_[caller] += queue_.at(*key).work;
      queue_.erase(*key);
    }
  }
  bool empty() const { return queue_.empty(); }
  int64_t waiting(uint64_t caller) { return waiting_work_[caller]; }
  int64_t served() const {
    int64_t all = 0;
    for (const auto& [caller, work] : served_) all += work;
    return all;
  }
  int64_t served(uint64_t caller) { return served_[caller]; }
  const FairOrder& order() const { return order_; }

 private:
  FairOrder order_{kStep};
  std::map<std::pair<int64_t, int>, Piece> queue_;
  std::map<uint64_t, int64_t> waiting_work_;
  std::map<uint64_t, int64_t> dropped_work_;  // since everything was done
  std::map<uint64_t, int64_t> served_;
  int next_ = 0;
};

TEST(FairOrderTest, OneCallersWorkIsServedAsItCame) {
  Simulation simulation;
  for (const int64_t work : {50, 1, 20, 3}) simulation.Push(7, work);
  for (const int64_t work : {50, 1, 20, 3}) EXPECT_EQ(simulation.Pop().work, work);
}

TEST(FairOrderTest, EqualSharesHoweverMuchEachHasWaiting) {
  Simulation simulation;
  for (int i = 0; i < 1000; ++i) simulation.Push(1, 10);
  for (int i = 0; i < 2; ++i) simulation.Push(2, 30);
  for (int i = 0; i < 800; ++i) {
    const Simulation::Piece piece = simulation.Pop();
    simulation.Push(piece.caller, piece.work);
    EXPECT_LE(std::abs(simulation.served(1) - simulation.served(2)), 2 * 30) << i;
  }
}

TEST(FairOrderTest, ANewcomerComesBeforeTheBacklogOfOthers) {
  Simulation simulation;
  for (int i = 0; i < 100; ++i) simulation.Push(1, 10);
  for (int i = 0; i < 50; ++i) simulation.Pop();
  simulation.Push(2, 9);
  EXPECT_EQ(simulation.Pop().caller, 2u);
}

TEST(FairOrderTest, HavingBeenAwayEarnsNoCredit) {
  Simulation simulation;
  simulation.Push(2, 10);
  simulation.Pop();
  for (int i = 0; i < 100; ++i) simulation.Push(1, 10);
  for (int i = 0; i < 50; ++i) simulation.Pop();
  for (int i = 0; i < 50; ++i) simulation.Push(2, 10);
  const int64_t before = simulation.served(1);
  for (int i = 0; i < 20; ++i) simulation.Pop();
  EXPECT_NEAR(static_cast<double>(simulation.served(1) - before), 100, 10);
}

TEST(FairOrderTest, PriorityComesFirst) {
  Simulation simulation;
  for (int i = 0; i < 10; ++i) simulation.Push(1, 10);
  simulation.Push(1, 10, 1);
  simulation.Push(2, 10, 2);
  EXPECT_EQ(simulation.Pop().priority, 2);
  EXPECT_EQ(simulation.Pop().priority, 1);
}

TEST(FairOrderTest, AHeadStartIsSpentByUsingIt) {
  Simulation simulation;
  for (int i = 0; i < 10'000; ++i) simulation.Push(1, 10);
  for (int i = 0; i < 10'000; ++i) simulation.Push(2, 10, kMaxPriority);
  for (int i = 0; i < 2 * kMaxPriority * 100; ++i) simulation.Pop();
  EXPECT_GE(simulation.served(2), kMaxPriority * kStep) << "the head start";
  const int64_t low = simulation.served(1), high = simulation.served(2);
  for (int i = 0; i < 2000; ++i) simulation.Pop();
  EXPECT_NEAR(static_cast<double>(simulation.served(1) - low), static_cast<double>(simulation.served(2) - high), 40);
}

TEST(FairOrderTest, UrgentWorkFromEverNewCallersDoesNotStarveTheRest) {
  Simulation simulation;
  simulation.Push(0, 10);
  uint64_t caller = 1;
  int64_t overtaken = 0;
  while (true) {
    simulation.Push(caller++, 10, kMaxPriority);
    const Simulation::Piece piece = simulation.Pop();
    if (piece.caller == 0) break;
    overtaken += piece.work;
    ASSERT_LT(overtaken, 100 * kMaxPriority * kStep);
  }
}

TEST(FairOrderTest, EverNewCallersDoNotStarveABacklog) {
  Simulation simulation;
  for (int i = 0; i < 20; ++i) simulation.Push(0, 100);
  uint64_t caller = 1;
  int64_t overtaken = 0;
  while (simulation.waiting(0) > 0) {
    simulation.Push(caller++, 100);
    if (simulation.Pop().caller != 0) ++overtaken;
    ASSERT_LT(overtaken, 20 * 1024);
  }
}

TEST(FairOrderTest, DroppedWorkIsNotCounted) {
  Simulation simulation;
  for (int i = 0; i < 100; ++i) simulation.Push(1, 10);
  for (int i = 0; i < 100; ++i) simulation.Push(2, 10);
  simulation.DropSomeOf(1, 100);
  simulation.Push(1, 10);
  simulation.Pop();
  EXPECT_EQ(simulation.Pop().caller, 1u);
}

TEST(FairOrderTest, ForgetsCallersWhoHaveGone) {
  Simulation simulation;
  for (uint64_t caller = 0; caller < 100'000; ++caller) {
    simulation.Push(caller, 10);
    simulation.Pop();
    ASSERT_LE(simulation.order().callers(), 4000u);
  }
}

TEST(FairOrderTest, AHeadStartThatOvertookNobodyIsNotSpent) {
  for (const int priority : {0, 1, 9}) {
    Simulation simulation;
    // Alone for a while, with something always waiting.
    simulation.Push(1, 10, priority);
    for (int i = 0; i < 100'000; ++i) {
      simulation.Push(1, 10, priority);
      simulation.Pop();
    }
    simulation.Push(2, 10, priority);
    int64_t served_to_2 = 0;
    for (int i = 0; i < 20; ++i) {
      const Simulation::Piece piece = simulation.Pop();
      if (piece.caller == 2) served_to_2 += piece.work;
      simulation.Push(piece.caller, 10, priority);
    }
    EXPECT_NEAR(static_cast<double>(served_to_2), 100, 10) << "priority " << priority;
  }
}

TEST(FairOrderTest, WhatExpiresEarnsNoDoubleShareLater) {
  Simulation simulation;
  for (int i = 0; i < 100; ++i) simulation.Push(1, 10);
  for (int i = 0; i < 100; ++i) simulation.Push(2, 10);
  simulation.DropSomeOf(1, 50);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(simulation.Pop().caller, 2u) << i;
  for (int i = 0; i < 50; ++i) simulation.Push(1, 10);
  const int64_t before_1 = simulation.served(1), before_2 = simulation.served(2);
  for (int i = 0; i < 40; ++i) simulation.Pop();
  EXPECT_NEAR(static_cast<double>(simulation.served(1) - before_1),
              static_cast<double>(simulation.served(2) - before_2), 20);
}

// The bound of the header, on random traffic: callers with different sizes, bursts and priorities, and drops.
enum class Priorities { kNone, kAllAlike, kMixed };

class FairOrderBoundTest : public ::testing::TestWithParam<Priorities> {};

TEST_P(FairOrderBoundTest, NobodyIsOvertakenByMoreThanTheBound) {
  constexpr uint64_t kCallers = 6;
  std::mt19937 random(11);
  const auto pick = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    Simulation simulation;
    std::vector<int64_t> largest(kCallers);
    std::vector<int> priority(kCallers, GetParam() == Priorities::kNone ? 0 : kMaxPriority);
    for (uint64_t caller = 0; caller < kCallers; ++caller) {
      largest[caller] = pick(1, 300);
      if (GetParam() == Priorities::kMixed) priority[caller] = static_cast<int>(pick(0, kMaxPriority));
    }
    for (int event = 0; event < 500; ++event) {
      const auto caller = static_cast<uint64_t>(pick(0, kCallers - 1));
      for (int64_t burst = pick(0, 4); burst > 0; --burst) {
        simulation.Push(caller, pick(1, largest[caller]), priority[caller]);
      }
      if (pick(0, 20) == 0) simulation.DropSomeOf(caller, static_cast<int>(pick(1, 5)));
      if (simulation.empty()) continue;
      const Simulation::Piece piece = simulation.Pop();
      for (uint64_t other = 0; other < kCallers; ++other) {
        if (other == piece.caller) continue;
        const auto found = piece.served_at_arrival.find(other);
        const int64_t overtook =
            simulation.served(other) - (found == piece.served_at_arrival.end() ? 0 : found->second);
        const int64_t aged = GetParam() == Priorities::kMixed ? kMaxPriority * kStep : 0;
        const int64_t bound = std::max<int64_t>(0, piece.own_before + largest[piece.caller] + largest[other] +
                                                       (priority[other] - piece.priority) * kStep + aged);
        ASSERT_LE(overtook, bound + simulation.served() / 1000)
            << "round " << round << ", event " << event << ", caller " << other;
      }
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Priorities>& traffic) {
  switch (traffic.param) {
    case Priorities::kNone:
      return "WithoutPriorities";
    case Priorities::kAllAlike:
      return "OfEqualPriority";
    default:
      return "OfMixedPriorities";
  }
}

INSTANTIATE_TEST_SUITE_P(Traffic, FairOrderBoundTest,
                         ::testing::Values(Priorities::kNone, Priorities::kAllAlike, Priorities::kMixed), NameOf);

}  // namespace
}  // namespace lion
