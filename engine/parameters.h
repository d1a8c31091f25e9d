// From checkpoint views to parameters the kernels take.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/operations.h"
#include "model_loader/weights.h"

namespace lion {

// gamma and beta as the kernels want them; the vectors own the memory.
struct Norm {
  std::vector<float> gamma;
  std::vector<float> beta;
  float epsilon = 0;

  NormParameters parameters() const { return {gamma.data(), beta.data(), epsilon}; }
  int64_t bytes() const { return static_cast<int64_t>((gamma.size() + beta.size()) * sizeof(float)); }
};
Norm MakeNorm(const NormWeights& weights, double epsilon);

// Several layers with the same input as one: their rows one below the other.
absl::StatusOr<std::unique_ptr<PackedLinear>> Pack(const Operations& operations, DataType type,
                                                   std::initializer_list<const LinearWeights*> layers);

}  // namespace lion
