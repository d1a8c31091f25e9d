#include "client/cli/bench/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "client/cli/bench/trend.h"

namespace lion::bench {
namespace {

constexpr double kSecondNs = 1e9;

std::vector<int64_t> Take(ArrivalPlan& plan, int count) {
  std::vector<int64_t> times;
  for (int i = 0; i < count; ++i) times.push_back(plan.NextNs());
  return times;
}

TEST(ConstantArrivalsTest, AreEvenlySpacedFromTheStart) {
  const auto plan = ConstantArrivals(200);
  EXPECT_EQ(Take(*plan, 4), (std::vector<int64_t>{0, 5'000'000, 10'000'000, 15'000'000}));
}

TEST(ConstantArrivalsTest, DoNotDriftWhereTheDistanceIsNoWholeNanosecond) {
  const auto plan = ConstantArrivals(3);
  const std::vector<int64_t> times = Take(*plan, 3'000'001);
  EXPECT_EQ(times[1], 333'333'333);
  EXPECT_EQ(times[2], 666'666'667);
  EXPECT_EQ(times[3'000'000], 1'000'000'000'000'000);
}

TEST(PoissonArrivalsTest, DistancesHaveTheMeanAndTheVarianceOfTheRate) {
  const double per_second = 250;
  const int count = 400'000;
  const auto plan = PoissonArrivals(per_second, 7);
  const std::vector<int64_t> times = Take(*plan, count);
  double sum = 0, squares = 0;
  int64_t before = 0, short_ones = 0;
  for (const int64_t at : times) {
    ASSERT_GE(at, before);
    const double distance_s = static_cast<double>(at - before) / kSecondNs;
    sum += distance_s;
    squares += distance_s * distance_s;
    if (distance_s * per_second < 0.1) ++short_ones;
    before = at;
  }
  const double mean = sum / count;
  const double variance = squares / count - mean * mean;
  // Five standard errors: of the mean 1 / sqrt(n), of the variance sqrt(8 / n), of its own.
  EXPECT_NEAR(mean * per_second, 1, 0.008);
  EXPECT_NEAR(variance * per_second * per_second, 1, 0.0225);
  EXPECT_NEAR(static_cast<double>(short_ones) / count, 1 - std::exp(-0.1), 0.0024);
}

TEST(PoissonArrivalsTest, CountsInEqualTimesHaveAVarianceEqualToTheirMean) {
  const auto plan = PoissonArrivals(40, 8);
  const int seconds = 20'000;
  std::vector<double> counts(seconds, 0);
  for (int64_t at = plan->NextNs(); at < int64_t{seconds} * 1'000'000'000; at = plan->NextNs()) {
    ++counts[at / 1'000'000'000];
  }
  double sum = 0, squares = 0;
  for (const double count : counts) {
    sum += count;
    squares += count * count;
  }
  const double mean = sum / seconds;
  EXPECT_NEAR(mean, 40, 0.23);  // five standard errors
  EXPECT_NEAR((squares / seconds - mean * mean) / mean, 1, 0.05);
}

TEST(PoissonArrivalsTest, AreAFunctionOfTheSeed) {
  EXPECT_EQ(Take(*PoissonArrivals(100, 1), 1000), Take(*PoissonArrivals(100, 1), 1000));
  EXPECT_NE(Take(*PoissonArrivals(100, 1), 1000), Take(*PoissonArrivals(100, 2), 1000));
}

TEST(TrendTest, SeesALineAndNoLevel) {
  Trend line, level, falling;
  for (int i = 0; i < 10; ++i) {
    line.Add(i, 2 + 0.5 * i);
    level.Add(i, 2);
    falling.Add(i, 2 - 0.5 * i);
  }
  EXPECT_TRUE(line.Grows());
  EXPECT_FALSE(level.Grows());
  EXPECT_FALSE(falling.Grows());
  EXPECT_FALSE(Trend().Grows());
}

TEST(TrendTest, OneOutlierAtTheEndIsNoTrend) {
  Trend trend;
  for (int i = 0; i < 10; ++i) trend.Add(i, i == 9 ? 6 : 0.1);
  EXPECT_FALSE(trend.Grows());
}

TEST(TrendTest, IsNotMisledByLargeOffsets) {
  Trend trend;
  for (int i = 0; i < 1000; ++i) trend.Add(1e9 + i, 1e6 + 1e-3 * i + (i % 2 == 0 ? 0.01 : -0.01));
  EXPECT_TRUE(trend.Grows());
}

}  // namespace
}  // namespace lion::bench
