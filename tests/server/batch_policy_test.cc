#include "server/batch_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lion {
namespace {

using ::testing::ElementsAre;

constexpr Verdict kWaits = Verdict::kWaits;
constexpr Verdict kRuns = Verdict::kRuns;
constexpr Verdict kExpired = Verdict::kExpired;
constexpr Verdict kCancelled = Verdict::kCancelled;
constexpr BatchLimits kLimits = {.max_tokens = 100, .max_inputs = 4, .max_wait_ns = 0};

QueuedTask Tokens(int64_t tokens) { return {.tokens = tokens}; }

BatchPlan Plan(const std::vector<QueuedTask>& queue, int64_t now_ns = 0, const BatchLimits& limits = kLimits,
               bool flush = false) {
  return PlanBatch(queue, now_ns, flush, limits);
}

TEST(BatchPolicyTest, AnEmptyQueueFormsNoBatch) {
  const BatchPlan plan = Plan({});
  EXPECT_EQ(plan.inputs, 0);
  EXPECT_EQ(plan.look_again_ns, kNever);
}

TEST(BatchPolicyTest, FillsUpToExactlyTheTokenBudget) {
  const BatchPlan plan = Plan({Tokens(40), Tokens(60), Tokens(1)});
  EXPECT_THAT(plan.verdicts, ElementsAre(kRuns, kRuns, kWaits));
  EXPECT_EQ(plan.tokens, 100);
  EXPECT_EQ(plan.inputs, 2);
}

TEST(BatchPolicyTest, FillsUpToTheInputBudget) {
  EXPECT_THAT(Plan({Tokens(1), Tokens(1), Tokens(1), Tokens(1), Tokens(1)}).verdicts,
              ElementsAre(kRuns, kRuns, kRuns, kRuns, kWaits));
}

TEST(BatchPolicyTest, NobodyOvertakesToFillAGap) {
  EXPECT_THAT(Plan({Tokens(60), Tokens(41), Tokens(1)}).verdicts, ElementsAre(kRuns, kWaits, kWaits));
}

TEST(BatchPolicyTest, ATaskOverTheBudgetRunsAlone) {
  const BatchPlan plan = Plan({Tokens(400), Tokens(1)});
  EXPECT_THAT(plan.verdicts, ElementsAre(kRuns, kWaits));
  EXPECT_EQ(plan.tokens, 400);
}

TEST(BatchPolicyTest, ATaskOverTheBudgetWaitsForItsOwnBatch) {
  EXPECT_THAT(Plan({Tokens(1), Tokens(400), Tokens(1)}).verdicts, ElementsAre(kRuns, kWaits, kWaits));
}

TEST(BatchPolicyTest, ExpiresAtItsDeadlineAndNotBefore) {
  const std::vector<QueuedTask> queue = {{.tokens = 1, .deadline_ns = 50}};
  EXPECT_THAT(Plan(queue, 49).verdicts, ElementsAre(kRuns));
  EXPECT_THAT(Plan(queue, 50).verdicts, ElementsAre(kExpired));
  EXPECT_EQ(Plan(queue, 50).inputs, 0);
}

TEST(BatchPolicyTest, DropsTheCancelledWhereverTheyStand) {
  const std::atomic<bool> yes = true;
  const std::atomic<bool> no = false;
  EXPECT_THAT(Plan({{.tokens = 60, .cancelled = &yes},
                    {.tokens = 60, .cancelled = &no},
                    {.tokens = 60, .cancelled = &no},
                    {.tokens = 60, .cancelled = &yes}})
                  .verdicts,
              ElementsAre(kCancelled, kRuns, kWaits, kCancelled));
}

TEST(BatchPolicyTest, AnIdleDeviceWaitsForMaxWaitFromTheOldest) {
  BatchLimits limits = kLimits;
  limits.max_wait_ns = 30;
  const std::vector<QueuedTask> queue = {{.tokens = 1, .arrival_ns = 10}, {.tokens = 1, .arrival_ns = 20}};
  const BatchPlan early = Plan(queue, 39, limits);
  EXPECT_THAT(early.verdicts, ElementsAre(kWaits, kWaits));
  EXPECT_EQ(early.inputs, 0);
  EXPECT_EQ(early.tokens, 0);
  EXPECT_EQ(early.look_again_ns, 40);
  EXPECT_THAT(Plan(queue, 40, limits).verdicts, ElementsAre(kRuns, kRuns));
}

TEST(BatchPolicyTest, LooksAgainAtADeadlineThatComesBeforeMaxWait) {
  BatchLimits limits = kLimits;
  limits.max_wait_ns = 30;
  EXPECT_EQ(Plan({{.tokens = 1, .arrival_ns = 10, .deadline_ns = 25}}, 10, limits).look_again_ns, 25);
}

TEST(BatchPolicyTest, AFullBatchOrAFlushDoesNotWait) {
  BatchLimits limits = kLimits;
  limits.max_wait_ns = 30;
  EXPECT_EQ(Plan({Tokens(100)}, 0, limits).inputs, 1);
  EXPECT_EQ(Plan({Tokens(60), Tokens(60)}, 0, limits).inputs, 1) << "the next does not fit: waiting gains nothing";
  EXPECT_EQ(Plan({Tokens(1), Tokens(1), Tokens(1), Tokens(1)}, 0, limits).inputs, 4);
  EXPECT_EQ(Plan({Tokens(1)}, 0, limits, /*flush=*/true).inputs, 1);
}

TEST(BatchPolicyTest, RefusesLimitsThatCannotWork) {
  EXPECT_TRUE(BatchLimits().Validate().ok());
  EXPECT_FALSE(BatchLimits{.max_tokens = 0}.Validate().ok());
  EXPECT_FALSE(BatchLimits{.max_inputs = 0}.Validate().ok());
  EXPECT_FALSE(BatchLimits{.max_wait_ns = -1}.Validate().ok());
  EXPECT_FALSE(BatchLimits{.priority_step_tokens = -1}.Validate().ok());
  EXPECT_FALSE(BatchLimits{.priority_step_tokens = kNever}.Validate().ok());
}

}  // namespace
}  // namespace lion
