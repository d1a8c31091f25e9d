#include "tests/fuzz/model.h"

#include "model_loader/architecture.h"
#include "model_loader/utf8.h"
#include "tests/fuzz/check.h"

namespace lion::fuzz {
namespace {

using Shape = std::vector<int64_t>;

void CheckVision(const ModelConfig& config, const VisionWeights& weights) {
  CheckEqual(static_cast<int64_t>(weights.blocks.size()), config.depth, "blocks");
  Check(weights.patch.weight.shape == Shape({config.width, 3, config.patch_size, config.patch_size}), "patch weights");
  Check(weights.norm.weight.shape == Shape({config.width}), "norm weights");
  for (const VisionBlockWeights& block : weights.blocks) {
    Check(block.qkv.weight.shape == Shape({3 * config.width, config.width}), "qkv weights");
    Check(block.fc1.weight.shape == Shape({config.mlp_width, config.width}), "fc1 weights");
    Check((config.variant == Variant::kLionD) == !block.decay.shape.empty(), "decays of LION-D alone");
    Check((config.variant == Variant::kLionS) == !block.gate.weight.shape.empty(), "gates of LION-S alone");
  }
  Check(config.image.size >= config.patch_size, "an image has a patch");
  Check(config.image.crop_ratio > 0 && config.image.crop_ratio <= 1, "crop ratio");
  for (const float deviation : config.image.std) Check(deviation > 0, "the images' standard deviation");
}

void CheckText(const ModelConfig& config, const TextWeights& weights) {
  CheckEqual(static_cast<int64_t>(weights.layers.size()), config.depth, "layers");
  Check(weights.word_embeddings.shape.size() == 2 && weights.word_embeddings.shape[1] == config.width, "words");
  CheckAtMost(config.vocabulary, weights.word_embeddings.shape[0], "vocabulary");
  Check(config.vocabulary > 0, "a vocabulary has words");
  for (const TextLayerWeights& layer : weights.layers) {
    Check(layer.query.weight.shape == Shape({config.width, config.width}), "query weights");
    Check(layer.intermediate.weight.shape == Shape({config.mlp_width, config.width}), "intermediate weights");
  }
}

void CheckModel(const LoadedModel& model) {
  const ModelConfig& config = model.config;
  Check(config.depth > 0 && config.width > 0 && config.heads > 0 && config.mlp_width > 0, "sizes are positive");
  CheckEqual(config.heads * config.head_width(), config.width, "heads times their width");
  Check(config.classes >= 0, "classes");
  if (!config.labels.empty()) CheckEqual(static_cast<int64_t>(config.labels.size()), config.classes, "labels");
  for (const std::string& label : config.labels) Check(Utf8Prefix(label) == label.size(), "a label is UTF-8");
  Check(model.parameters > 0, "parameters");
  if (config.modality == Modality::kVision) {
    CheckVision(config, model.vision);
  } else {
    CheckText(config, model.text);
  }
}

}  // namespace

void ReadAllElements(const std::map<std::string, TensorView>& tensors, int64_t file_bytes) {
  for (const auto& [name, tensor] : tensors) {
    const int64_t elements = tensor.elements();
    CheckAtMost(elements, file_bytes, "elements of a tensor");
    CheckEqual(static_cast<int64_t>(ToFloat32(tensor).size()), elements, "elements that were read");
  }
}

void ReadModel(const Checkpoint& checkpoint, const LoadOptions& options) {
  const absl::StatusOr<Modality> modality = DetectModality(checkpoint);
  CheckRefusal(modality.status(), absl::StatusCode::kInvalidArgument, "telling vision from text");
  if (!modality.ok()) return;
  LoadedModel model;
  model.config.modality = *modality;
  const absl::Status status = *modality == Modality::kVision ? ReadVisionModel(checkpoint, options, model)
                                                             : ReadTextModel(checkpoint, options, model);
  CheckRefusal(status, absl::StatusCode::kInvalidArgument, "reading the architecture");
  if (status.ok()) CheckModel(model);
}

}  // namespace lion::fuzz
