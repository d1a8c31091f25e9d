// Rows through a linear layer, with what comes before and after it while the rows are in cache:
//
//   y = post_norm(activation(pre_norm(x) W^T + b) + residual)
//
// each part but the product being optional.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace lion {

// gamma, beta [columns] float32, in the backend's memory. gamma == nullptr: no norm.
struct NormParameters {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 0;
};

enum class Activation : uint8_t { kNone, kGeluErf };

// A weight matrix as the backend likes it. Immutable; made by Operations::pack_linear.
class PackedLinear {
 public:
  virtual ~PackedLinear() = default;
  int64_t inputs() const { return inputs_; }    // K
  int64_t outputs() const { return outputs_; }  // N, the tail's included
  int64_t bytes() const { return bytes_; }

 protected:
  PackedLinear(int64_t inputs, int64_t outputs, int64_t bytes) : inputs_(inputs), outputs_(outputs), bytes_(bytes) {}

 private:
  int64_t inputs_;
  int64_t outputs_;
  int64_t bytes_;
};

struct LinearPack {
  const float* weight = nullptr;  // [outputs, inputs], row-major, host memory
  const float* bias = nullptr;    // [outputs] or nullptr, host memory
  int64_t inputs = 0;
  int64_t outputs = 0;
  DataType compute_type = DataType::kFloat32;  // of the product's operands; sums are float32
  int64_t tail_outputs = 0;                    // the last outputs, which LinearArgs::tail takes
};

struct LinearArgs {
  const void* input = nullptr;  // [rows, inputs]; read while `output` and `tail` are written: shares no byte with them
  DataType input_type = DataType::kFloat32;
  int64_t rows = 0;
  NormParameters pre_norm;
  const PackedLinear* linear = nullptr;
  Activation activation = Activation::kNone;
  const float* residual = nullptr;  // [rows, outputs], or nullptr; may be `output` itself
  NormParameters post_norm;

  // [rows, outputs - tail_columns] and [rows, tail_columns]: the last columns (gate logits, which stay float32) go to
  // their own array. tail_columns: as the layer was packed; it must be 0 with a residual, an activation or a post_norm.
  void* output = nullptr;
  DataType output_type = DataType::kFloat32;
  float* tail = nullptr;
  int64_t tail_columns = 0;
};

// The feed-forward layer, in place: x = post_norm(x + fc2(gelu(fc1(pre_norm(x))))). The hidden activations exist for a
// few rows at a time only.
struct MlpArgs {
  float* x = nullptr;  // [rows, D]
  int64_t rows = 0;
  NormParameters pre_norm;
  const PackedLinear* fc1 = nullptr;  // [mlp, D]
  const PackedLinear* fc2 = nullptr;  // [D, mlp]
  NormParameters post_norm;
};

struct LayerNormArgs {
  const float* input = nullptr;  // [rows, columns]
  int64_t rows = 0;
  int64_t columns = 0;
  NormParameters norm;
  float* output = nullptr;  // [rows, columns]; may be `input`
};

}  // namespace lion
