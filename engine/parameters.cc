#include "engine/parameters.h"

namespace lion {

Norm MakeNorm(const NormWeights& weights, double epsilon) {
  return {ToFloat32(weights.weight), ToFloat32(weights.bias), static_cast<float>(epsilon)};
}

absl::StatusOr<std::unique_ptr<PackedLinear>> Pack(const Operations& operations, DataType type,
                                                   std::initializer_list<const LinearWeights*> layers) {
  std::vector<float> weight, bias;
  int64_t outputs = 0;
  for (const LinearWeights* layer : layers) {
    if (layer->weight.data == nullptr) continue;
    const int64_t rows = layer->weight.shape[0];
    const std::vector<float> part = ToFloat32(layer->weight);
    weight.insert(weight.end(), part.begin(), part.end());
    const std::vector<float> part_bias =
        layer->bias.data == nullptr ? std::vector<float>(rows, 0.0f) : ToFloat32(layer->bias);
    bias.insert(bias.end(), part_bias.begin(), part_bias.end());
    outputs += rows;
  }
  return operations.pack_linear({.weight = weight.data(),
                                 .bias = bias.data(),
                                 .inputs = static_cast<int64_t>(weight.size()) / outputs,
                                 .outputs = outputs,
                                 .compute_type = type});
}

}  // namespace lion
