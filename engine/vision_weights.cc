#include "engine/vision_weights.h"

#include "absl/strings/str_cat.h"
#include "kernels/mixer.h"

namespace lion {
namespace {

// LION-D's learned scalars a_h as log lambda = -softplus(-a).
absl::StatusOr<std::vector<float>> LearnedLogDecay(const TensorView& decay, const Operations& operations,
                                                   KernelContext& context) {
  if (decay.data == nullptr) return std::vector<float>();
  std::vector<float> values = ToFloat32(decay);
  absl::Status status = operations.log_decay(context, {.kind = DecayKind::kLearned,
                                                       .values = values.data(),
                                                       .rows = 1,
                                                       .columns = static_cast<int64_t>(values.size()),
                                                       .offsets = {}});
  if (!status.ok()) return status;
  return values;
}

}  // namespace

int MixerOrders(const ModelConfig& config) {
  const bool decays = config.variant == Variant::kLionD || config.variant == Variant::kLionS;
  return decays && config.order == PatchOrder::kS ? 2 : 1;
}

absl::StatusOr<PackedVision> PackVision(const LoadedModel& model, const Operations& operations, DataType type) {
  PackedVision packed;
  absl::StatusOr<std::unique_ptr<KernelContext>> context = operations.make_context({});
  if (!context.ok()) return context.status();
  absl::Status failure;
  const auto pack = [&](DataType layer_type, std::initializer_list<const LinearWeights*> layers) {
    absl::StatusOr<std::unique_ptr<PackedLinear>> linear = Pack(operations, layer_type, layers);
    if (!linear.ok()) {
      failure.Update(linear.status());
      return std::unique_ptr<PackedLinear>();
    }
    packed.bytes += (*linear)->bytes();
    return *std::move(linear);
  };
  const auto norm = [&](const NormWeights& weights) {
    Norm made = MakeNorm(weights, model.config.layer_norm_eps);
    packed.bytes += made.bytes();
    return made;
  };
  const VisionWeights& weights = model.vision;
  LinearWeights patch = weights.patch;
  // [D, 3, P, P] as [D, 3 P P] needs the values in row-major order: converted first, whatever their strides are.
  const std::vector<float> patch_values = ToFloat32(patch.weight);
  const int64_t rows = patch.weight.shape[0], columns = static_cast<int64_t>(patch_values.size()) / rows;
  patch.weight = {TensorType::kFloat32, {rows, columns}, {columns, 1}, patch_values.data()};
  packed.patch = pack(type, {&patch});
  packed.cls_token = ToFloat32(weights.cls_token);
  if (weights.pos_embed.data != nullptr) packed.positions = ToFloat32(weights.pos_embed);
  packed.bytes += static_cast<int64_t>((packed.cls_token.size() + packed.positions.size()) * sizeof(float));
  for (const VisionBlockWeights& from : weights.blocks) {
    VisionBlock block;
    block.norm1 = norm(from.norm1);
    block.qkv = pack(type, {&from.qkv, &from.gate, &from.gate2});
    const TensorView* decays[2] = {&from.decay, &from.decay2};
    for (int order = 0; order < 2; ++order) {
      absl::StatusOr<std::vector<float>> decay = LearnedLogDecay(*decays[order], operations, **context);
      if (!decay.ok()) return decay.status();
      block.log_decay[order] = *std::move(decay);
    }
    block.proj = pack(type, {&from.proj});
    block.norm2 = norm(from.norm2);
    block.fc1 = pack(type, {&from.fc1});
    block.fc2 = pack(type, {&from.fc2});
    packed.blocks.push_back(std::move(block));
  }
  packed.norm = norm(weights.norm);
  if (weights.head.weight.data != nullptr) packed.head = pack(DataType::kFloat32, {&weights.head});
  if (!failure.ok()) return failure;
  return packed;
}

}  // namespace lion
