#include "engine/engine.h"

#include <algorithm>

#include "engine/encoder_engine.h"
#include "engine/resources.h"
#include "engine/text_engine.h"
#include "engine/vision_engine.h"
#include "kernels/operations.h"

namespace lion {
namespace {

// Without a --max-input-tokens: a 4096 x 4096 image (65,537 tokens) and a document of 100,000 tokens fit, if memory
// allows.
constexpr int64_t kDefaultMaxTokens = 131'072;
constexpr int64_t kMinTokens = 1024;

// A quarter of the memory, so that weights, decoded images and messages have room.
int64_t TokensThatFit(int64_t bytes_per_token) {
  return std::clamp(MemoryLimitBytes() / 4 / bytes_per_token, kMinTokens, kDefaultMaxTokens);
}

absl::StatusOr<EnginePlan> MakePlan(const ModelConfig& config, const EngineOptions& options) {
  EnginePlan plan;
  if (options.device == Device::kReference) {
    plan.operations = &ReferenceOperations();
    plan.device = "reference";
  } else {
    absl::StatusOr<const Operations*> operations = CpuOperations(options.isa);
    if (!operations.ok()) return operations.status();
    plan.operations = *operations;
    plan.device = "cpu";
  }
  plan.compute_type = options.compute_type;
  if (plan.compute_type == ComputeType::kAuto) {
    const bool fast = options.device != Device::kReference && CpuHasFastBFloat16() &&
                      (options.isa == "auto" || options.isa == "avx512");
    plan.compute_type = fast ? ComputeType::kBFloat16 : ComputeType::kFloat32;
  }
  plan.mixer = options.mixer == MixerForm::kAuto ? MixerForm::kChunk : options.mixer;
  if (options.threads < 0) return absl::InvalidArgumentError("the number of threads must not be negative");
  plan.threads = options.threads == 0 ? CpuLimit() : options.threads;
  if (options.max_batch_tokens < 0) return absl::InvalidArgumentError("max_batch_tokens must not be negative");
  plan.max_batch_tokens = options.max_batch_tokens;
  if (plan.max_batch_tokens == 0) {
    // The mixer's scratch comes on top of the arena: up to 16 bytes per thread and element of a head.
    const int64_t scratch = plan.threads * 16 * (config.head_width() + 16);
    plan.max_batch_tokens = TokensThatFit(EncoderEngine::ArenaBytesPerToken(config, plan.compute_type) + scratch);
  }
  return plan;
}

}  // namespace

std::string_view ComputeTypeName(ComputeType type) {
  switch (type) {
    case ComputeType::kFloat32:
      return "float32";
    case ComputeType::kBFloat16:
      return "bfloat16";
    default:
      return "auto";
  }
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const LoadedModel& model, const EngineOptions& options) {
  absl::StatusOr<EnginePlan> plan = MakePlan(model.config, options);
  if (!plan.ok()) return plan.status();
  return model.config.modality == Modality::kText ? TextEngine::Create(model, *plan)
                                                  : VisionEngine::Create(model, *plan);
}

}  // namespace lion
