#include "tests/support/compare.h"

#include <cmath>
#include <limits>
#include <vector>

namespace lion::testing {

double RelativeError(std::span<const float> got, std::span<const double> want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  if (error == 0) return 0;
  return std::sqrt(error / norm);
}

::testing::AssertionResult Near(std::span<const float> got, std::span<const double> want, double max_relative_error) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << "got " << got.size() << " values, want " << want.size();
  }
  const double error = RelativeError(got, want);
  if (error <= max_relative_error) return ::testing::AssertionSuccess();
  size_t worst = 0;
  double worst_difference = -1;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::isfinite(got[i]) ? std::abs(got[i] - want[i]) : HUGE_VAL;
    if (difference > worst_difference) {
      worst_difference = difference;
      worst = i;
    }
  }
  return ::testing::AssertionFailure() << "relative error " << error << " is over " << max_relative_error
                                       << "; worst at [" << worst << "] of " << want.size() << ": got " << got[worst]
                                       << ", want " << want[worst];
}

::testing::AssertionResult Near(std::span<const float> got, std::span<const float> want, double max_relative_error) {
  return Near(got, std::vector<double>(want.begin(), want.end()), max_relative_error);
}

}  // namespace lion::testing
