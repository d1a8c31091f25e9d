#include "engine/text_weights.h"

#include <algorithm>

namespace lion {
namespace {

constexpr double kMixerNormEpsilon = 1e-5;  // of layer_norm_after, whatever config.json says of the others

// Entries of the vocabulary in one part of the decoder: few enough that a tile of their logits stays in cache, and that
// a single masked token is work for many threads.
constexpr int64_t kDecoderPart = 1024;

EncoderLayer PackLayer(const TextLayerWeights& from, double epsilon, DataType type, Packer& packer) {
  EncoderLayer layer;
  layer.qkv = packer.Linear(type, {&from.query, &from.key, &from.value}, {&from.gate});
  layer.log_decay[0] = packer.LogDecay(from.decay);
  layer.mixer_norm = packer.MakeNorm(from.mixer_norm, kMixerNormEpsilon);
  layer.proj = packer.Linear(type, {&from.attention_output});
  layer.post_mixer_norm = packer.MakeNorm(from.attention_norm, epsilon);
  layer.fc1 = packer.Linear(type, {&from.intermediate});
  layer.fc2 = packer.Linear(type, {&from.output});
  layer.post_mlp_norm = packer.MakeNorm(from.output_norm, epsilon);
  return layer;
}

}  // namespace

absl::StatusOr<PackedText> PackText(const LoadedModel& model, const Operations& operations, DataType type) {
  absl::StatusOr<Packer> packer = Packer::Create(operations);
  if (!packer.ok()) return packer.status();
  const ModelConfig& config = model.config;
  const TextWeights& weights = model.text;
  PackedText packed;
  packed.words = packer->Floats(Rows(weights.word_embeddings, 0, config.vocabulary));
  packed.types = packer->Floats(weights.type_embeddings);
  packed.positions = packer->Floats(weights.position_embeddings);
  packed.embeddings_norm = packer->MakeNorm(weights.embeddings_norm, config.layer_norm_eps);
  for (const TextLayerWeights& from : weights.layers) {
    packed.layers.push_back(PackLayer(from, config.layer_norm_eps, type, *packer));
  }
  packed.pooler = packer->Linear(DataType::kFloat32, {&weights.pooler});
  packed.classifier = packer->Linear(DataType::kFloat32, {&weights.classifier});
  if (config.masked_lm) {
    packed.mlm_dense = packer->Linear(type, {&weights.mlm_dense});
    packed.mlm_norm = packer->MakeNorm(weights.mlm_norm, config.layer_norm_eps);
    for (int64_t first = 0; first < config.vocabulary; first += kDecoderPart) {
      const int64_t rows = std::min(kDecoderPart, config.vocabulary - first);
      const LinearWeights part = {Rows(weights.mlm_decoder, first, rows), Rows(weights.mlm_bias, first, rows)};
      packed.mlm_decoder.push_back(packer->Linear(type, {&part}));
    }
  }
  if (!packer->status().ok()) return packer->status();
  packed.bytes = packer->bytes();
  return packed;
}

}  // namespace lion
