// The forward pass of a vision encoder (docs/mathematics.md, section 3) over ragged batches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/vision_weights.h"
#include "kernels/operations.h"

namespace lion {

// The engine's choices, all settled: nothing is "auto" any more.
struct EnginePlan {
  const Operations* operations = nullptr;
  std::string device;
  ComputeType compute_type = ComputeType::kFloat32;
  MixerForm mixer = MixerForm::kChunk;
  int threads = 1;
  int64_t max_batch_tokens = 0;
};

class VisionEngine : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const LoadedModel& model, const EnginePlan& plan);

  // Activation memory per token, scratch of the kernels not included.
  static int64_t ArenaBytesPerToken(const ModelConfig& config, ComputeType type);

  absl::Status Forward(std::span<const Request> requests, std::span<Result> results) override;
  absl::StatusOr<int64_t> CountTokens(int64_t height, int64_t width) const override;
  absl::Status CheckText(const TextInput& text) const override;
  const ModelConfig& config() const override { return config_; }
  std::string device() const override { return plan_.device; }
  std::string isa() const override { return plan_.operations->name; }
  ComputeType compute_type() const override { return plan_.compute_type; }
  MixerForm mixer() const override { return plan_.mixer; }
  int threads() const override { return plan_.threads; }
  int64_t max_batch_tokens() const override { return plan_.max_batch_tokens; }
  int64_t weight_bytes() const override { return weights_.bytes; }
  int64_t bytes_per_token() const override { return bytes_per_token_; }

 private:
  VisionEngine(ModelConfig config, const EnginePlan& plan, PackedVision weights);

  absl::Status AllocateArena();
  void PlaceSequences(std::span<const Request> requests);
  absl::Status RunBlock(const VisionBlock& block);
  absl::Status RunMixer(const VisionBlock& block);
  absl::Status ReadPooled(std::span<const Request> requests, std::span<Result> results);
  absl::Status ReadRows(const Request& request, size_t index, Result& result);

  DataType activation_type() const {
    return plan_.compute_type == ComputeType::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
  }

  const ModelConfig config_;
  const EnginePlan plan_;
  const PackedVision weights_;
  const int orders_;
  const int64_t gates_;  // columns of gate logits: H for each order of LION-S
  std::unique_ptr<KernelContext> context_;
  int64_t bytes_per_token_ = 0;  // of the arena and of the scratch that grows with length

  // The arena, for max_batch_tokens tokens T, and where the arrays lie in it.
  std::unique_ptr<std::byte, void (*)(void*)> arena_;
  float* x_ = nullptr;                       // [T, D]: the residual stream
  void* qkv_ = nullptr;                      // [T, 3, H, d]
  void* mixed_ = nullptr;                    // [T, H, d]
  float* gate_ = nullptr;                    // [T, gates]: gate logits, then log decays
  int32_t* places_[2] = {nullptr, nullptr};  // [T] each: the two scans of the S order

  // Of the batch at hand; capacity is kept.
  std::vector<PatchImage> images_;
  std::vector<int64_t> offsets_;
  std::vector<float> pooled_;
  std::vector<float> logits_;
};

}  // namespace lion
