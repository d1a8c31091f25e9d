// The forward pass of a vision encoder (docs/mathematics.md, section 3) over ragged batches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/encoder_engine.h"
#include "engine/vision_weights.h"

namespace lion {

class VisionEngine : public EncoderEngine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const LoadedModel& model, const EnginePlan& plan);

  absl::StatusOr<int64_t> CountTokens(int64_t height, int64_t width) const override;
  absl::Status CheckText(const TextInput& text) const override;
  int64_t weight_bytes() const override { return weights_.bytes; }

 private:
  VisionEngine(const ModelConfig& config, const EnginePlan& plan, PackedVision weights);

  int64_t TokensOf(const Request& request) const override;
  absl::Status Embed(std::span<const Request> requests) override;
  std::span<const EncoderLayer> layers() const override { return weights_.layers; }
  absl::Status ReadOutputs(std::span<const Request> requests, std::span<Result> results) override;
  absl::Status ReadLogits(std::span<const Request> requests, std::span<Result> results, const float* pooled);

  const PackedVision weights_;

  // Of the batch at hand; capacity is kept.
  std::vector<PatchImage> images_;
  std::vector<float> logits_;
};

}  // namespace lion
