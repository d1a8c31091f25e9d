#include "client/cli/bench/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "client/cli/bench/percentiles.h"

namespace lion::bench {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t OnlyValue(int64_t ns) {
  Histogram histogram;
  histogram.Record(ns);
  // Larger and smaller ones beside it, so that it is read from its bucket and not from the extremes.
  histogram.Record(0);
  histogram.Record(kMax);
  return histogram.ValueAtRank(2);
}

TEST(HistogramTest, SmallValuesAreExact) {
  Histogram histogram;
  for (int64_t ns = 0; ns < 2048; ++ns) histogram.Record(ns);
  for (int64_t ns = 0; ns < 2048; ++ns) EXPECT_EQ(histogram.ValueAtRank(ns + 1), ns);
}

TEST(HistogramTest, ValuesOfEveryMagnitudeAreReadBackWithinATwothousandth) {
  std::mt19937_64 random(1);
  for (int batch = 0; batch < 50; ++batch) {
    Histogram histogram;
    std::vector<int64_t> values(400);
    for (int64_t& ns : values) {
      ns = static_cast<int64_t>(random() >> (1 + random() % 63));
      histogram.Record(ns);
    }
    std::sort(values.begin(), values.end());
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = static_cast<double>(values[i]);
      EXPECT_NEAR(static_cast<double>(histogram.ValueAtRank(static_cast<int64_t>(i) + 1)), want, want / 2000);
    }
  }
}

TEST(HistogramTest, TheEdgesOfBucketsAreReadBackWithinATwothousandth) {
  for (int shift = 11; shift < 63; ++shift) {
    const int64_t power = int64_t{1} << shift;
    for (const int64_t ns : {power - 1, power, power + 1, power + (power >> 10) - 1, power + (power >> 10)}) {
      EXPECT_LE(std::abs(static_cast<double>(OnlyValue(ns) - ns)), static_cast<double>(ns) / 2000) << ns;
    }
  }
  EXPECT_LE(static_cast<double>(kMax - OnlyValue(kMax - 1)), static_cast<double>(kMax) / 2000);
}

TEST(HistogramTest, RanksAreThoseOfTheSortedValues) {
  std::mt19937_64 random(2);
  std::lognormal_distribution<double> distribution(16, 2);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<int64_t>(distribution(random)));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (int64_t rank = 1; rank <= histogram.count(); rank += 7) {
    const double want = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.ValueAtRank(rank)), want, want / 2000) << rank;
  }
  double sum = 0;
  for (const int64_t value : values) sum += static_cast<double>(value);
  EXPECT_NEAR(histogram.mean_ns(), sum / 20'000, 1e-9 * sum / 20'000);
  EXPECT_EQ(histogram.min_ns(), values.front());
  EXPECT_EQ(histogram.max_ns(), values.back());
}

TEST(HistogramTest, TheExtremesAreExact) {
  Histogram histogram;
  histogram.Record(123'456'789);
  EXPECT_EQ(histogram.ValueAtRank(1), 123'456'789);
  histogram.Record(987'654'321);
  EXPECT_EQ(histogram.min_ns(), 123'456'789);
  EXPECT_EQ(histogram.max_ns(), 987'654'321);
  EXPECT_GE(histogram.ValueAtRank(1), 123'456'789);
  EXPECT_LE(histogram.ValueAtRank(2), 987'654'321);
}

TEST(HistogramTest, NegativeIsZeroAndEmptyIsZero) {
  Histogram histogram;
  EXPECT_EQ(histogram.ValueAtRank(1), 0);
  EXPECT_EQ(histogram.mean_ns(), 0);
  histogram.Record(-5);
  EXPECT_EQ(histogram.count(), 1);
  EXPECT_EQ(histogram.max_ns(), 0);
  EXPECT_EQ(histogram.mean_ns(), 0);
}

TEST(HistogramTest, MergingIsRecordingAll) {
  std::mt19937_64 random(3);
  Histogram parts[3], whole;
  for (int i = 0; i < 3000; ++i) {
    const int64_t ns = static_cast<int64_t>(random() >> (20 + i % 3 * 12));  // the parts differ in size
    parts[i % 3].Record(ns);
    whole.Record(ns);
  }
  Histogram merged;
  merged.Merge(Histogram());
  for (const Histogram& part : parts) merged.Merge(part);
  merged.Merge(Histogram());
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_EQ(merged.min_ns(), whole.min_ns());
  EXPECT_EQ(merged.max_ns(), whole.max_ns());
  EXPECT_NEAR(merged.mean_ns(), whole.mean_ns(), 1e-9 * whole.mean_ns());
  for (int64_t rank = 1; rank <= 3000; ++rank) EXPECT_EQ(merged.ValueAtRank(rank), whole.ValueAtRank(rank));
}

Histogram OneTo(int64_t count) {
  Histogram histogram;
  for (int64_t i = 1; i <= count; ++i) histogram.Record(i);
  return histogram;
}

TEST(PercentileTest, NeedsTenValuesBeyondIt) {
  const int64_t needed[] = {20, 100, 1000, 10'000};
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    EXPECT_EQ(ValueAt(kPercentiles[i], OneTo(needed[i] - 1)), std::nullopt) << kPercentiles[i].name;
    EXPECT_NE(ValueAt(kPercentiles[i], OneTo(needed[i])), std::nullopt) << kPercentiles[i].name;
  }
}

TEST(PercentileTest, IsTheSmallestValueThatNoMoreThanItsShareExceed) {
  const Histogram histogram = OneTo(1000);
  EXPECT_EQ(ValueAt(kPercentiles[0], histogram), 500);
  EXPECT_EQ(ValueAt(kPercentiles[1], histogram), 900);
  EXPECT_EQ(ValueAt(kPercentiles[2], histogram), 990);
  EXPECT_EQ(ValueAt(kPercentiles[2], OneTo(1099)), 1089);  // 10 exceed it; 11 would be more than a hundredth
}

}  // namespace
}  // namespace lion::bench
