// Comparison of computed tensors with their right answers: relative L2 error, and no NaN.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>

namespace lion::testing {

// ||got - want|| / ||want|| over the whole tensor, in float64. Infinite when a value is not finite.
double RelativeError(std::span<const float> got, std::span<const double> want);

// A failure says both sizes or the error, its bound and the worst element.
::testing::AssertionResult Near(std::span<const float> got, std::span<const double> want, double max_relative_error);

// The same with an answer in float32.
::testing::AssertionResult Near(std::span<const float> got, std::span<const float> want, double max_relative_error);

}  // namespace lion::testing
