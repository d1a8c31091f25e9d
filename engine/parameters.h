// From checkpoint views to parameters the kernels take.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/operations.h"
#include "model_loader/model_config.h"
#include "model_loader/weights.h"

namespace lion {

// gamma and beta as the kernels want them; the vectors own the memory. Empty: no norm.
struct Norm {
  std::vector<float> gamma;
  std::vector<float> beta;
  float epsilon = 0;

  NormParameters parameters() const { return {gamma.empty() ? nullptr : gamma.data(), beta.data(), epsilon}; }
};

// One layer of an encoder: x = post_mixer_norm(x + proj(mixer_norm(mix(qkv(pre_mixer_norm(x)))))), then
// x = post_mlp_norm(x + fc2(gelu(fc1(pre_mlp_norm(x))))). Vision has the norms before, text those after.
struct EncoderLayer {
  Norm pre_mixer_norm;
  // [3 D + gates, D]: the rows of the gates (LION-S: H for each order) are appended to qkv's.
  std::unique_ptr<PackedLinear> qkv;
  std::array<std::vector<float>, 2> log_decay;  // LION-D: [H] for each order
  Norm mixer_norm;
  std::unique_ptr<PackedLinear> proj;
  Norm post_mixer_norm;
  Norm pre_mlp_norm;
  std::unique_ptr<PackedLinear> fc1;
  std::unique_ptr<PackedLinear> fc2;
  Norm post_mlp_norm;
};

// Makes the parameters of one model and counts their bytes. A view without data becomes an empty vector, an empty norm
// or a nullptr. After the first error everything else is worthless: ask status() at the end.
class Packer {
 public:
  static absl::StatusOr<Packer> Create(const Operations& operations);

  // Several layers with the same input as one: their rows one below the other.
  std::unique_ptr<PackedLinear> Linear(DataType type, std::initializer_list<const LinearWeights*> layers,
                                       std::initializer_list<const LinearWeights*> tail = {});
  Norm MakeNorm(const NormWeights& weights, double epsilon);
  std::vector<float> Floats(const TensorView& view);
  // LION-D's learned scalars a_h as log lambda = -softplus(-a).
  std::vector<float> LogDecay(const TensorView& decay);

  const absl::Status& status() const { return status_; }
  int64_t bytes() const { return bytes_; }

 private:
  Packer(const Operations& operations, std::unique_ptr<KernelContext> context)
      : operations_(&operations), context_(std::move(context)) {}

  const Operations* operations_;
  std::unique_ptr<KernelContext> context_;
  absl::Status status_;
  int64_t bytes_ = 0;
};

// Rows [first, first + count) of a [n, ...] tensor.
TensorView Rows(TensorView view, int64_t first, int64_t count);

// How many orders the mixer scans: 2 for the S order, but 1 for LION-LIT, whose mask is 1 in any order.
int MixerOrders(const ModelConfig& config);

}  // namespace lion
