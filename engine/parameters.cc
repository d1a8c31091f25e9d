#include "engine/parameters.h"

namespace lion {

absl::StatusOr<Packer> Packer::Create(const Operations& operations) {
  absl::StatusOr<std::unique_ptr<KernelContext>> context = operations.make_context({});
  if (!context.ok()) return context.status();
  return Packer(operations, *std::move(context));
}

std::unique_ptr<PackedLinear> Packer::Linear(DataType type, std::initializer_list<const LinearWeights*> layers,
                                             std::initializer_list<const LinearWeights*> tail) {
  std::vector<float> weight, bias;
  const auto append = [&](std::initializer_list<const LinearWeights*> parts) {
    int64_t all_rows = 0;
    for (const LinearWeights* layer : parts) {
      if (layer->weight.data == nullptr) continue;
      const int64_t rows = layer->weight.shape[0];
      const std::vector<float> part = ToFloat32(layer->weight);
      weight.insert(weight.end(), part.begin(), part.end());
      const std::vector<float> part_bias =
          layer->bias.data == nullptr ? std::vector<float>(rows, 0.0f) : ToFloat32(layer->bias);
      bias.insert(bias.end(), part_bias.begin(), part_bias.end());
      all_rows += rows;
    }
    return all_rows;
  };
  const int64_t body_outputs = append(layers), tail_outputs = append(tail), outputs = body_outputs + tail_outputs;
  if (outputs == 0) return nullptr;
  absl::StatusOr<std::unique_ptr<PackedLinear>> linear =
      operations_->pack_linear({.weight = weight.data(),
                                .bias = bias.data(),
                                .inputs = static_cast<int64_t>(weight.size()) / outputs,
                                .outputs = outputs,
                                .compute_type = type,
                                .tail_outputs = tail_outputs});
  if (!linear.ok()) {
    status_.Update(linear.status());
    return nullptr;
  }
  bytes_ += (*linear)->bytes();
  return *std::move(linear);
}

Norm Packer::MakeNorm(const NormWeights& weights, double epsilon) {
  return {Floats(weights.weight), Floats(weights.bias), static_cast<float>(epsilon)};
}

std::vector<float> Packer::Floats(const TensorView& view) {
  if (view.data == nullptr) return {};
  std::vector<float> values = ToFloat32(view);
  bytes_ += static_cast<int64_t>(values.size() * sizeof(float));
  return values;
}

std::vector<float> Packer::LogDecay(const TensorView& decay) {
  std::vector<float> values = Floats(decay);
  if (!values.empty()) {
    status_.Update(operations_->log_decay(*context_, {.kind = DecayKind::kLearned,
                                                      .values = values.data(),
                                                      .rows = 1,
                                                      .columns = static_cast<int64_t>(values.size()),
                                                      .offsets = {}}));
  }
  return values;
}

TensorView Rows(TensorView view, int64_t first, int64_t count) {
  view.data = static_cast<const std::byte*>(view.data) + first * view.strides[0] * TensorTypeSize(view.type);
  view.shape[0] = count;
  return view;
}

int MixerOrders(const ModelConfig& config) {
  const bool decays = config.variant == Variant::kLionD || config.variant == Variant::kLionS;
  return decays && config.order == PatchOrder::kS ? 2 : 1;
}

}  // namespace lion
