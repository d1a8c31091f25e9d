// What stands between the matrix products of a layer, on the GPU: residual and layer norm, GELU, L2 norm.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch_result.h"
#include "kernels/linear.h"

namespace lion::cuda {

// The longest row that is normalised.
inline constexpr int64_t kMaxNormColumns = 1536;

// sum = x + added + bias; normed = norm(sum). In either, what is nullptr is left out; so is the norm without gamma.
struct AddNormArgs {
  const float* x = nullptr;     // [rows, columns], not nullptr
  const void* added = nullptr;  // [rows, columns] of `type`, or nullptr
  const float* bias = nullptr;  // [columns], of `added`, or nullptr
  DataType type = DataType::kFloat32;
  int64_t rows = 0;
  int64_t columns = 0;   // at most kMaxNormColumns; multiples of 4 are fastest (arrays aligned to 16 bytes)
  float* sum = nullptr;  // [rows, columns], or nullptr; may be x
  NormParameters norm;
  float* normed_float = nullptr;  // [rows, columns], or nullptr; may be x, and sum where that is not wanted
  void* normed = nullptr;         // [rows, columns] of `type`, or nullptr; may be `added`
};
LaunchResult AddNorm(const AddNormArgs& args, Stream stream);

// output = gelu(input + bias), exact (erf).
struct GeluArgs {
  const void* input = nullptr;  // [rows, columns] of `type`
  const float* bias = nullptr;  // [columns], or nullptr
  DataType type = DataType::kFloat32;
  int64_t rows = 0;
  int64_t columns = 0;     // multiples of 8 are fastest (arrays aligned to 16 bytes)
  void* output = nullptr;  // [rows, columns] of `type`; may be `input`
};
LaunchResult Gelu(const GeluArgs& args, Stream stream);

// Each row of x [rows, columns] divided by its L2 norm; a row of zeros stays so.
LaunchResult NormalizeRows(float* x, int64_t rows, int64_t columns, Stream stream);

}  // namespace lion::cuda
