// A loaded model that runs batches: the boundary between the server and the forward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/types.h"
#include "model_loader/model_loader.h"

namespace lion {

enum class Device : uint8_t { kAuto, kCpu, kReference };
enum class ComputeType : uint8_t { kAuto, kFloat32, kBFloat16 };
std::string_view ComputeTypeName(ComputeType type);  // "auto", "float32", "bfloat16"

struct EngineOptions {
  // kReference: plain loops with float64 sums, for tests and debugging: hundreds of times slower.
  Device device = Device::kAuto;
  ComputeType compute_type = ComputeType::kAuto;  // kAuto: bfloat16 where the CPU has AMX or AVX512-BF16
  MixerForm mixer = MixerForm::kAuto;             // kAuto: kChunk
  // "auto", "scalar", "avx2" or "avx512": the instruction set of the CPU kernels. Asking for one that the machine lacks
  // is an error. The first engine of a process settles it for the matrix products of all.
  std::string isa = "auto";
  int threads = 0;  // of the forward pass; 0: the cgroup's quota, rounded up
  int64_t max_batch_tokens =
      0;  // the largest batch ever passed to Forward; memory for it is taken by Create. 0: from memory
};

// One image, ready for patching. The pixels must stay alive until Forward returns.
struct ImageInput {
  PixelLayout layout = PixelLayout::kInterleavedUint8;
  const void* pixels = nullptr;  // [h, w, 3] or [3, h, w] as `layout` says
  int64_t height = 0;            // pixels; what lies right of or below the last whole patch is ignored
  int64_t width = 0;
};

// One text as token ids, special tokens included, none of them padding. Must stay alive until Forward returns.
struct TextInput {
  std::span<const int32_t> ids;       // [L]
  std::span<const int32_t> type_ids;  // [L], or empty: all 0
};

// One sequence of a batch and what is wanted of it. What the model has no head for stays empty in the result.
struct Request {
  ImageInput image;                  // of a vision model
  TextInput text;                    // of a text model
  bool embedding = false;            // wants the embedding
  Pooling pooling = Pooling::kMean;  // of the embedding: any but kPooler for vision models
  bool logits = false;               // wants the classification or regression head
  // Masked-token models: the places in the text, in [0, L), whose token is to be predicted, and how many of the
  // likeliest tokens are wanted for each.
  std::span<const int32_t> masked;
  int64_t predictions = 0;
};

// A token that a masked place may hold.
struct TokenScore {
  int32_t id = 0;
  float logit = 0;
  float probability = 0;  // softmax over the vocabulary
};

struct Result {
  absl::Status status;           // INTERNAL: this input's output was not finite; the others are not touched
  std::vector<float> embedding;  // [rows, D]; rows = 1, or the tokens with Pooling::kNone. Not normalised
  int64_t rows = 0;
  std::vector<float> logits;            // [classes]
  std::vector<TokenScore> predictions;  // [masked, min(predictions, vocabulary)], likeliest first
};

// Thread-compatible: any number of threads may call the const methods at once, but only one at a time may be in
// Forward, which owns the engine's arena and threads. Forward spreads its own work over `threads` threads.
class Engine {
 public:
  // Converts and packs the weights, takes all memory a batch can need. INVALID_ARGUMENT: a model the kernels do not
  // support, or an option the machine cannot satisfy. RESOURCE_EXHAUSTED: not enough memory for the largest batch.
  // `model` is not needed afterwards.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const LoadedModel& model, const EngineOptions& options);
  virtual ~Engine() = default;

  // Runs one ragged batch: `results` has as many elements as `requests`, and every element is overwritten. A result
  // never depends on the other requests of the batch. The sum of the requests' tokens must not exceed
  // max_batch_tokens(), each input must have passed CountTokens or CheckText. An error of the whole call means a fault
  // of the device: no result is valid then.
  virtual absl::Status Forward(std::span<const Request> requests, std::span<Result> results) = 0;

  // Tokens that an image of this size becomes, class token included. INVALID_ARGUMENT when smaller than one patch.
  // A text model: always INVALID_ARGUMENT.
  virtual absl::StatusOr<int64_t> CountTokens(int64_t height, int64_t width) const = 0;

  // OK, or INVALID_ARGUMENT saying what is wrong: no tokens, an id that is not in the vocabulary, a type id the model
  // does not have, as many type ids as ids or none, more tokens than the model has positions. A vision model: always
  // INVALID_ARGUMENT.
  virtual absl::Status CheckText(const TextInput& text) const = 0;

  virtual const ModelConfig& config() const = 0;
  virtual std::string device() const = 0;        // "cpu"
  virtual std::string isa() const = 0;           // "avx512+amx"
  virtual ComputeType compute_type() const = 0;  // never kAuto
  virtual MixerForm mixer() const = 0;           // never kAuto
  virtual int threads() const = 0;
  virtual int64_t max_batch_tokens() const = 0;
  virtual int64_t weight_bytes() const = 0;     // as packed for compute
  virtual int64_t bytes_per_token() const = 0;  // activation memory per token of the largest batch
};

}  // namespace lion
