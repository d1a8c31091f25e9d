#include "server/image/resample_weights.h"

#include <algorithm>
#include <cmath>

namespace lion {
namespace {

// The forms of the polynomials matter: weights must round to the same integers as Pillow's.
double Bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
  return 0.0;
}

}  // namespace

ResampleWeights ComputeBicubicWeights(int64_t in_size, int64_t out_size, int64_t first_output, int64_t outputs) {
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  const double filter_scale = std::max(scale, 1.0);
  const double support = 2.0 * filter_scale;
  const double inverse = 1.0 / filter_scale;
  ResampleWeights weights;
  weights.stride = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  weights.begin.reserve(outputs);
  weights.count.reserve(outputs);
  weights.values.assign(outputs * weights.stride, 0);
  weights.first_input = in_size;
  std::vector<double> exact(weights.stride);
  for (int64_t i = 0; i < outputs; ++i) {
    const double center = (static_cast<double>(first_output + i) + 0.5) * scale;
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in_size);
    double sum = 0.0;
    for (int64_t j = 0; j < end - begin; ++j) {
      exact[j] = Bicubic((static_cast<double>(j + begin) - center + 0.5) * inverse);
      sum += exact[j];
    }
    for (int64_t j = 0; j < end - begin; ++j) {
      const double weight = (sum != 0.0 ? exact[j] / sum : exact[j]) * (1 << kResampleBits);
      weights.values[i * weights.stride + j] = static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    weights.begin.push_back(begin);
    weights.count.push_back(end - begin);
    weights.first_input = std::min(weights.first_input, begin);
    weights.end_input = std::max(weights.end_input, end);
  }
  return weights;
}

}  // namespace lion
