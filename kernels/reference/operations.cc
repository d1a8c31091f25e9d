#include "kernels/operations.h"

#include <memory>

#include "kernels/reference/internal.h"

namespace lion {
namespace reference {
namespace {

class ReferenceContext : public KernelContext {};

absl::StatusOr<std::unique_ptr<KernelContext>> MakeContext(const ContextOptions&) {
  return std::make_unique<ReferenceContext>();
}

}  // namespace

absl::Status Supports(const KernelNeeds&) { return absl::OkStatus(); }

}  // namespace reference

const Operations& ReferenceOperations() {
  static const Operations* const operations = new Operations{
      .name = "reference",
      .supports = reference::Supports,
      .make_context = reference::MakeContext,
      .pack_linear = reference::PackLinear,
      .patch_embed = reference::PatchEmbed,
      .linear = reference::Linear,
      .mlp = reference::Mlp,
      .layer_norm = reference::LayerNorm,
      .log_decay = reference::LogDecay,
      .mixer = reference::Mixer,
      .softmax_attention = reference::SoftmaxAttention,
      .pool = reference::Pool,
      .embed_tokens = reference::EmbedTokens,
      .predict_tokens = reference::PredictTokens,
  };
  return *operations;
}

}  // namespace lion
