// From a path to a validated model: finds the format, reads the architecture, checks every tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model_loader/model_config.h"
#include "model_loader/weights.h"

namespace lion {

// Which of a checkpoint's weights to serve, where it holds both.
enum class WeightChoice : uint8_t { kModel, kEma };

// What the caller says about the model; an unset value is left to config.json and the checkpoint. Highest rank in "Who
// decides" (docs/mathematics.md, section 5): but a value that contradicts a tensor is an error. In config.json a key
// whose value is null counts as absent; a config.json that is not an object is refused.
struct LoadOptions {
  WeightChoice weights = WeightChoice::kModel;
  bool allow_unused = false;  // tensors of heads that the architecture does not use are dropped, not an error
  std::optional<Variant> variant;
  std::optional<PatchOrder> order;
  std::optional<int64_t> heads;
  std::optional<Pooling> pooling;
  // Read into memory instead of mapped: for checkpoints that somebody may be writing just now. Takes their size in
  // memory until the model is gone.
  bool copy_files = false;
};

// One architecture value and where it came from, for the start-up log and `lion inspect`.
struct Provenance {
  std::string key;     // "heads"
  std::string value;   // "3"
  std::string origin;  // "checkpoint args.model (lion_tiny_patch16_224)"
};

struct LoadedModel {
  ModelConfig config;
  VisionWeights vision;  // filled for config.modality == kVision
  TextWeights text;      // filled for kText
  std::vector<Provenance> provenance;
  std::vector<std::string> warnings;  // unknown configuration keys, unused tensors that were allowed
  std::string format;                 // "torch zip, DeiT layout", "safetensors, 2 shards"
  std::string file;                   // the file (or folder) the weights came from
  std::string weights;                // "model" or "ema" where the file held both, else empty
  std::string stripped_prefix;        // "module." and so on; empty: none
  int64_t parameters = 0;             // elements of all tensors used
  int64_t file_bytes = 0;
  std::shared_ptr<const void> storage;  // keeps the mapped files alive; the views above point into it
};

// `path`: a checkpoint file (.pth, .pt, .bin, .safetensors) or a folder. NOT_FOUND where there is none,
// INVALID_ARGUMENT for a file that is malformed (naming the place and the rule) or whose architecture cannot be settled
// (naming the value and the flag), with all missing, unexpected, misshapen and contradictory tensors in one
// message. Never executes,
// imports or allocates what a file asks for. Any thread.
absl::StatusOr<LoadedModel> LoadModel(const std::string& path, const LoadOptions& options);

// A readable report of the same (what was found, from where, what is missing, parameters, memory), for `lion inspect`.
// A checkpoint that LoadModel refuses still gets a report as far as it could be read, with the error last, and a false
// `ok`.
struct InspectReport {
  std::string text;
  bool ok = false;
};
InspectReport InspectModel(const std::string& path, const LoadOptions& options);

}  // namespace lion
