// The latency bound of server/batcher.h, and the shares of callers.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "tests/server/batcher_fixture.h"

namespace lion {
namespace {

using ::testing::ElementsAre;

TEST_F(BatcherTest, CallersTakeTurnsHoweverMuchEachHasWaiting) {
  Start(kOptions);
  Occupy(0);
  for (int i = 1; i <= 6; ++i) {
    Batcher::Entry entry = Entry(i, 5);
    entry.caller = i <= 4 ? 1 : 2;
    Submit(std::move(entry));
  }
  Finish();
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 4)));
}

// Every batch takes 1 ms here, and half of one is asked for.
class BatchTimeTest : public BatcherTest {
 protected:
  void RunBeside(int64_t first_tokens, int rest) {
    Start({.limits = {.max_tokens = 4096, .max_batch_ns = 500'000}, .max_queue_tokens = 20'000}, 1'000'000);
    puppet_.Hold(true);
    Submit(Entry(0, first_tokens));
    puppet_.AwaitRunning(1);
    for (int i = 1; i <= rest; ++i) Submit(Entry(i, 256));
    Finish();
  }
};

TEST_F(BatchTimeTest, ABatchHasAsManyTokensAsItsTimeAllows) {
  RunBeside(2048, 8);
  // 2,048 tokens in 1 ms: 1,024 in half of it. Then 1,843 by the smoothed rate: 921.
  EXPECT_THAT(puppet_.batches(),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3, 4), ElementsAre(5, 6, 7), ElementsAre(8)));
}

TEST_F(BatchTimeTest, ASlowDeviceStillGetsBatchesWorthTheirWeights) {
  RunBeside(10, 4);
  EXPECT_THAT(puppet_.batches(), ElementsAre(ElementsAre(0), ElementsAre(1, 2), ElementsAre(3, 4)));
}

TEST(LimitsAtRate, LeavesALimitBelowTheLeastAlone) {
  const BatchLimits limits = {.max_tokens = 100, .max_batch_ns = 1'000'000};
  EXPECT_EQ(LimitsAtRate(limits, 1).max_tokens, 100);
  EXPECT_EQ(LimitsAtRate(limits, 1e300).max_tokens, 100);
}

constexpr int64_t kBatchNs = 1'000'000;
constexpr int kProbe = 1'000'000;

class BatcherBoundTest : public BatcherTest {
 protected:
  static constexpr BatcherOptions kBoundOptions = {.limits = {.max_tokens = 100, .priority_step_tokens = 400},
                                                   .max_queue_tokens = 20'000};

  // The time from a probe's submission, while the first of `bulk` batches runs, to the end of its batch.
  int64_t ProbeLatencyNs(int bulk, int64_t largest, int64_t probe_tokens, int priority, std::mt19937& random) {
    const size_t batches_before = puppet_.batches().size();
    puppet_.Hold(true);
    std::uniform_int_distribution<int64_t> tokens(1, largest);
    for (int i = 0; i < bulk; ++i) Submit(Entry(i, tokens(random)));
    puppet_.AwaitRunning(static_cast<int>(batches_before) + 1);
    const int64_t arrival_ns = clock_.NowNs();
    Batcher::Entry probe = Entry(kProbe, probe_tokens);
    probe.caller = 2;
    probe.priority = priority;
    Submit(std::move(probe));
    puppet_.Hold(false);
    EXPECT_TRUE(batcher_->WaitIdle(kNever));
    const std::vector<std::vector<int>> batches = puppet_.batches();
    int64_t end_ns = arrival_ns;  // every batch takes kBatchNs of the clock
    for (size_t i = batches_before; i < batches.size(); ++i) {
      end_ns += kBatchNs;
      if (std::ranges::count(batches[i], kProbe) > 0) return end_ns - arrival_ns;
    }
    ADD_FAILURE() << "the probe was not run";
    return 0;
  }

  // With max_wait 0: the rest of the running batch, and those of `before` tokens and of the probe.
  static int64_t BoundNs(int64_t before) { return kBatchNs + (2 * before / 100 + 1) * kBatchNs; }
};

TEST_F(BatcherBoundTest, HoldsForAProbeOfHighestPriorityBesideABulkCaller) {
  Start(kBoundOptions, kBatchNs);
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const int bulk = std::uniform_int_distribution<int>(5, 60)(random);
    EXPECT_LE(ProbeLatencyNs(bulk, 150, 10, kMaxPriority, random), BoundNs(0)) << "round " << round;
  }
}

// FairOrder: of the other caller's, at most its largest piece comes before a newcomer of the same priority.
TEST_F(BatcherBoundTest, HoldsForAProbeOfEqualPriority) {
  Start(kBoundOptions, kBatchNs);
  std::mt19937 random(4);
  for (int round = 0; round < 50; ++round) {
    const int bulk = std::uniform_int_distribution<int>(5, 100)(random);
    EXPECT_LE(ProbeLatencyNs(bulk, 150, 60, 0, random), BoundNs(150)) << "round " << round;
  }
}

TEST_F(BatcherBoundTest, HoldsWithALimitOfInputs) {
  BatcherOptions options = kBoundOptions;
  options.limits.max_inputs = 3;
  Start(options, kBatchNs);
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    // Pieces of one token: one input comes before the probe at most.
    EXPECT_LE(ProbeLatencyNs(60, 1, 1, 0, random), kBatchNs + (2 * 1 / 3 + 1) * kBatchNs) << "round " << round;
  }
}

}  // namespace
}  // namespace lion
