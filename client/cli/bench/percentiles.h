// Which percentiles a sample supports.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "client/cli/bench/histogram.h"

namespace lion::bench {

// "One in `one_in` values is larger."
struct Percentile {
  const char* name;
  int64_t one_in;
};

inline constexpr std::array<Percentile, 4> kPercentiles = {{{"p50", 2}, {"p90", 10}, {"p99", 100}, {"p99.9", 1000}}};

// Ten values must lie beyond a percentile: their number then scatters by a third from run to run (1 / sqrt(10)), and
// with fewer the figure is an anecdote of a few requests. p50 needs 20 values, p90 100, p99 1,000, p99.9 10,000.
inline constexpr int64_t kValuesBeyond = 10;

inline int64_t ValuesNeeded(const Percentile& percentile) { return kValuesBeyond * percentile.one_in; }

// The smallest value that no more than one in `one_in` exceed; nothing where the sample does not support it.
inline std::optional<int64_t> ValueAt(const Percentile& percentile, const Histogram& histogram) {
  if (histogram.count() < ValuesNeeded(percentile)) return std::nullopt;
  return histogram.ValueAtRank(histogram.count() - histogram.count() / percentile.one_in);
}

}  // namespace lion::bench
