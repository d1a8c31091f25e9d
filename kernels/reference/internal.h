// What the files of the reference backend share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/linear.h"
#include "kernels/operations.h"

namespace lion::reference {

class ReferenceLinear : public PackedLinear {
 public:
  explicit ReferenceLinear(const LinearPack& pack);

  std::vector<float> weight;  // [outputs, inputs], rounded to the compute type
  std::vector<float> bias;    // [outputs]
  DataType compute_type;
};

inline double Load(const void* data, DataType type, int64_t index) {
  return type == DataType::kFloat32 ? static_cast<const float*>(data)[index]
                                    : FromBFloat16(static_cast<const uint16_t*>(data)[index]);
}
inline void Store(void* data, DataType type, int64_t index, double value) {
  if (type == DataType::kFloat32) {
    static_cast<float*>(data)[index] = static_cast<float>(value);
  } else {
    static_cast<uint16_t*>(data)[index] = ToBFloat16(static_cast<float>(value));
  }
}

// row = norm(row); nothing when there is no norm.
void NormRow(std::span<double> row, const NormParameters& norm);
// W row + b, the row being rounded to the compute type first.
std::vector<double> Product(std::span<const double> row, const ReferenceLinear& linear);

absl::Status Supports(const KernelNeeds& needs);
absl::StatusOr<std::unique_ptr<PackedLinear>> PackLinear(const LinearPack& pack);
absl::Status PatchEmbed(KernelContext& context, const PatchEmbedArgs& args);
absl::Status Linear(KernelContext& context, const LinearArgs& args);
absl::Status Mlp(KernelContext& context, const MlpArgs& args);
absl::Status LayerNorm(KernelContext& context, const LayerNormArgs& args);
absl::Status LogDecay(KernelContext& context, const LogDecayArgs& args);
absl::Status Mixer(KernelContext& context, const MixerArgs& args);
absl::Status SoftmaxAttention(KernelContext& context, const SoftmaxAttentionArgs& args);
absl::Status Pool(KernelContext& context, const PoolArgs& args);
absl::Status EmbedTokens(KernelContext& context, const EmbedTokensArgs& args);
absl::Status PredictTokens(KernelContext& context, const PredictTokensArgs& args);

}  // namespace lion::reference
