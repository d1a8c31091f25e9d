// The kernels of one backend and instruction set: a table of functions, chosen once when a model is loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/linear.h"
#include "kernels/mixer.h"
#include "kernels/text.h"
#include "kernels/types.h"
#include "kernels/vision.h"

namespace lion {

// What the calls of one engine share: threads and scratch memory. One call at a time.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  virtual int64_t scratch_bytes() const { return 0; }  // taken so far
};

struct ContextOptions {
  int threads = 1;
  int64_t max_tokens = 0;  // of a sequence: scratch that grows with length is taken when the context is made
  int64_t heads = 0;
  int64_t head_width = 0;
  DataType type = DataType::kFloat32;  // of the mixer's activations, as its form and orders are
  MixerForm mixer = MixerForm::kChunk;
  int decay_orders = 1;  // 0: no decay
};

// What a model wants of the kernels; asked when it is loaded, never inside a request.
struct KernelNeeds {
  int64_t head_width = 0;
  int64_t patch_size = 0;
  DataType compute_type = DataType::kFloat32;
};

// Every function returns an error only for a fault of the device or of the library below; arguments are the caller's
// duty (violations abort). Pointers are in the backend's memory. Every output is written completely, and depends on its
// own row or sequence alone: never on what else is in the batch, bit for bit.
struct Operations {
  std::string name;  // "reference", "avx512+amx": what the log says

  // OK, or UNIMPLEMENTED saying which limit the model exceeds.
  absl::Status (*supports)(const KernelNeeds&) = nullptr;
  absl::StatusOr<std::unique_ptr<KernelContext>> (*make_context)(const ContextOptions&) = nullptr;
  absl::StatusOr<std::unique_ptr<PackedLinear>> (*pack_linear)(const LinearPack&) = nullptr;

  absl::Status (*patch_embed)(KernelContext&, const PatchEmbedArgs&) = nullptr;
  absl::Status (*linear)(KernelContext&, const LinearArgs&) = nullptr;
  absl::Status (*mlp)(KernelContext&, const MlpArgs&) = nullptr;
  absl::Status (*layer_norm)(KernelContext&, const LayerNormArgs&) = nullptr;
  absl::Status (*log_decay)(KernelContext&, const LogDecayArgs&) = nullptr;
  absl::Status (*mixer)(KernelContext&, const MixerArgs&) = nullptr;
  absl::Status (*softmax_attention)(KernelContext&, const SoftmaxAttentionArgs&) = nullptr;
  absl::Status (*pool)(KernelContext&, const PoolArgs&) = nullptr;
  absl::Status (*embed_tokens)(KernelContext&, const EmbedTokensArgs&) = nullptr;
  absl::Status (*predict_tokens)(KernelContext&, const PredictTokensArgs&) = nullptr;
};

// Plain loops with float64 sums: the truth that every other backend is tested against.
const Operations& ReferenceOperations();

// `isa`: "auto", "scalar", "avx2" or "avx512"; INVALID_ARGUMENT when unknown or when this machine lacks it. The first
// call of a process also sets the instruction set of the matrix products, for good: a later call with another one gets
// FAILED_PRECONDITION where that matters.
absl::StatusOr<const Operations*> CpuOperations(const std::string& isa);

// Whether bfloat16 products are fast here (AMX or AVX512-BF16).
bool CpuHasFastBFloat16();

}  // namespace lion
