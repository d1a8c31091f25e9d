#include "engine/vision_weights.h"

namespace lion {

absl::StatusOr<PackedVision> PackVision(const LoadedModel& model, const Operations& operations, DataType type) {
  absl::StatusOr<Packer> packer = Packer::Create(operations);
  if (!packer.ok()) return packer.status();
  const double epsilon = model.config.layer_norm_eps;
  const VisionWeights& weights = model.vision;
  PackedVision packed;
  LinearWeights patch = weights.patch;
  // [D, 3, P, P] as [D, 3 P P] needs the values in row-major order: converted first, whatever their strides are.
  const std::vector<float> patch_values = ToFloat32(patch.weight);
  const int64_t rows = patch.weight.shape[0], columns = static_cast<int64_t>(patch_values.size()) / rows;
  patch.weight = {TensorType::kFloat32, {rows, columns}, {columns, 1}, patch_values.data()};
  packed.patch = packer->Linear(type, {&patch});
  packed.cls_token = packer->Floats(weights.cls_token);
  packed.positions = packer->Floats(weights.pos_embed);
  for (const VisionBlockWeights& from : weights.blocks) {
    EncoderLayer& layer = packed.layers.emplace_back();
    layer.pre_mixer_norm = packer->MakeNorm(from.norm1, epsilon);
    layer.qkv = packer->Linear(type, {&from.qkv}, {&from.gate, &from.gate2});
    layer.log_decay = {packer->LogDecay(from.decay), packer->LogDecay(from.decay2)};
    layer.proj = packer->Linear(type, {&from.proj});
    layer.pre_mlp_norm = packer->MakeNorm(from.norm2, epsilon);
    layer.fc1 = packer->Linear(type, {&from.fc1});
    layer.fc2 = packer->Linear(type, {&from.fc2});
  }
  packed.norm = packer->MakeNorm(weights.norm, epsilon);
  packed.head = packer->Linear(DataType::kFloat32, {&weights.head});
  if (!packer->status().ok()) return packer->status();
  packed.bytes = packer->bytes();
  return packed;
}

}  // namespace lion
