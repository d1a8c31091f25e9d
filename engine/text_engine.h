// The forward pass of a text encoder (docs/mathematics.md, section 4) over ragged batches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/encoder_engine.h"
#include "engine/text_weights.h"
#include "kernels/text.h"

namespace lion {

class TextEngine : public EncoderEngine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const LoadedModel& model, const EnginePlan& plan);

  absl::StatusOr<int64_t> CountTokens(int64_t height, int64_t width) const override;
  absl::Status CheckText(const TextInput& text) const override;
  int64_t weight_bytes() const override { return weights_.bytes; }

 private:
  // A masked place of the batch and where its predictions go.
  struct Masked {
    size_t request;
    int64_t row;    // of x()
    int64_t first;  // in Result::predictions
    int64_t count;
  };

  TextEngine(const ModelConfig& config, const EnginePlan& plan, PackedText weights);

  int64_t TokensOf(const Request& request) const override;
  absl::Status Embed(std::span<const Request> requests) override;
  std::span<const EncoderLayer> layers() const override { return weights_.layers; }
  absl::Status ReadOutputs(std::span<const Request> requests, std::span<Result> results) override;
  absl::Status ReadHeads(std::span<const Request> requests, std::span<Result> results, const float* first_tokens);
  absl::Status ReadPredictions(std::span<const Request> requests, std::span<Result> results);
  // The likeliest tokens of some masked places, whose number bounds the memory this takes.
  absl::Status Predict(std::span<const Masked> masked, std::span<Result> results);
  // output [rows, outputs] = input W^T + b, in float32.
  absl::Status Project(const PackedLinear& linear, const float* input, int64_t rows, std::vector<float>& output);

  const PackedText weights_;

  // Of the batch at hand; capacity is kept.
  std::vector<TokenSequence> sequences_;
  std::vector<float> pooler_;
  std::vector<float> logits_;
  std::vector<Masked> masked_;
  std::vector<float> masked_rows_;
  std::vector<float> mlm_hidden_;
  std::vector<int32_t> ids_;
  std::vector<float> scores_;
  std::vector<float> probabilities_;
};

}  // namespace lion
