// What the forward passes of vision and text encoders have in common: the arena, the layers, pooling, and the check of
// what leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/parameters.h"
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

  DataType data_type() const {
    return compute_type == ComputeType::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
  }
};

class EncoderEngine : public Engine {
 public:
  // Activation memory per token, scratch of the kernels not included.
  static int64_t ArenaBytesPerToken(const ModelConfig& config, ComputeType type);

  absl::Status Forward(std::span<const Request> requests, std::span<Result> results) final;
  const ModelConfig& config() const final { return config_; }
  std::string device() const final { return plan_.device; }
  std::string isa() const final { return plan_.operations->name; }
  ComputeType compute_type() const final { return plan_.compute_type; }
  MixerForm mixer() const final { return plan_.mixer; }
  int threads() const final { return plan_.threads; }
  int64_t max_batch_tokens() const final { return plan_.max_batch_tokens; }
  int64_t bytes_per_token() const final { return bytes_per_token_; }

 protected:
  EncoderEngine(ModelConfig config, const EnginePlan& plan);

  // INVALID_ARGUMENT naming the limit that the model exceeds.
  static absl::Status CheckKernels(const ModelConfig& config, const EnginePlan& plan);
  // The error of packing the weights, as whoever started the engine understands it.
  static absl::Status PackingError(const absl::Status& status, const EnginePlan& plan);

  // Takes and touches the memory of the largest batch. The last step of Create.
  absl::Status AllocateArena();

  // The steps of Forward. Its batch is in offsets() and x() meanwhile.
  virtual int64_t TokensOf(const Request& request) const = 0;
  virtual absl::Status Embed(std::span<const Request> requests) = 0;  // writes x()
  virtual std::span<const EncoderLayer> layers() const = 0;
  virtual absl::Status ReadOutputs(std::span<const Request> requests, std::span<Result> results) = 0;

  // Fills the embeddings that are wanted from norm(x()). Where the heads want a pooling too, `read_heads` is called
  // with the batch's vectors [n, D] of that pooling.
  absl::Status ReadEmbeddings(std::span<const Request> requests, std::span<Result> results, const NormParameters& norm,
                              std::optional<Pooling> heads_pooling,
                              const std::function<absl::Status(const float* pooled)>& read_heads);

  const Operations& run() const { return *plan_.operations; }
  KernelContext& context() { return *context_; }
  // Where the sequences of the batch begin, and one past the last token: [n + 1].
  std::span<const int64_t> offsets() const { return offsets_; }
  float* x() { return x_; }  // [tokens, D]: the residual stream
  // [tokens], of the two scans of the S order: Embed fills them if MixerOrders(config()) is 2.
  int32_t* places(int order) { return places_[order]; }

 private:
  absl::Status RunMixer(const EncoderLayer& layer);
  absl::Status RunLayer(const EncoderLayer& layer);
  absl::Status ReadRows(const NormParameters& norm, size_t index, Result& result);

  const ModelConfig config_;
  const EnginePlan plan_;
  const int orders_;
  const int64_t gates_;  // columns of gate logits: H for each order of LION-S
  std::unique_ptr<KernelContext> context_;
  int64_t bytes_per_token_ = 0;  // of the arena and of the scratch that grows with length

  // The arena, for max_batch_tokens tokens T, and where the arrays lie in it.
  std::unique_ptr<std::byte, void (*)(void*)> arena_;
  float* x_ = nullptr;                       // [T, D]
  void* qkv_ = nullptr;                      // [T, 3, H, d]
  void* mixed_ = nullptr;                    // [T, H, d]
  float* gate_ = nullptr;                    // [T, gates]: gate logits, then log decays
  int32_t* places_[2] = {nullptr, nullptr};  // [T] each

  // Of the batch at hand; capacity is kept.
  std::vector<int64_t> offsets_;
  std::vector<float> pooled_;
};

}  // namespace lion
