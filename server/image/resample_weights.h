// The weights of Pillow's antialiased bicubic, along one axis.
#pragma once

#include <cstdint>
#include <vector>

namespace lion {

constexpr int kResampleBits = 22;  // weights are integers in units of 2^-22

// Output i is the sum of in[begin[i] + j] * values[i * stride + j] over j < count[i].
struct ResampleWeights {
  int64_t stride = 0;
  std::vector<int64_t> begin;   // [outputs]
  std::vector<int64_t> count;   // [outputs], <= stride
  std::vector<int32_t> values;  // [outputs, stride]; each row sums to about 2^22
  int64_t first_input = 0;      // the inputs that any output needs: first_input .. end_input - 1
  int64_t end_input = 0;

  int64_t outputs() const { return static_cast<int64_t>(begin.size()); }
};

// For the outputs first_output .. first_output + outputs - 1 of an axis resized from in_size to out_size, exactly as if
// all were computed. Cubic convolution with a = -0.5 (Keys 1981), stretched by max(in_size / out_size, 1); weights of
// an output are normalised in double and rounded half away from zero. Memory is about 16 bytes * max(4 in_size /
// out_size, 5)
// * outputs / 4.
ResampleWeights ComputeBicubicWeights(int64_t in_size, int64_t out_size, int64_t first_output, int64_t outputs);

}  // namespace lion
