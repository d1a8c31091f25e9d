#include "model_loader/text_weights.h"

#include "model_loader/bytes.h"

namespace lion {
namespace {

TextLayerWeights TakeLayer(const ModelConfig& config, const std::string& name, ParameterReader& reader) {
  const int64_t width = config.width, heads = config.heads;
  const std::string self = name + "attention.self.";
  TextLayerWeights layer;
  layer.query = reader.TakeLinear(self + "query", width, width);
  layer.key = reader.TakeLinear(self + "key", width, width);
  layer.value = reader.TakeLinear(self + "value", width, width);
  if (config.variant == Variant::kLionS) layer.gate = reader.TakeLinear(self + "Wa_i", heads, width);
  if (config.variant == Variant::kLionD) layer.decay = reader.Take(self + "ai", {heads});
  if (config.mixer_layer_norm) layer.mixer_norm = reader.TakeNorm(self + "layer_norm", width);
  // Of relative positions: LION does not use it, softmax with it is refused.
  reader.Ignore(self + "distance_embedding.weight");
  layer.attention_output = reader.TakeLinear(name + "attention.output.dense", width, width);
  layer.attention_norm = reader.TakeNorm(name + "attention.output.LayerNorm", width);
  layer.intermediate = reader.TakeLinear(name + "intermediate.dense", config.mlp_width, width);
  layer.output = reader.TakeLinear(name + "output.dense", width, config.mlp_width);
  layer.output_norm = reader.TakeNorm(name + "output.LayerNorm", width);
  return layer;
}

void TakeMaskedLm(const ModelConfig& config, const Checkpoint& checkpoint, int64_t rows, ParameterReader& reader,
                  TextWeights& weights) {
  const std::string name = "cls.predictions.";
  weights.mlm_dense = reader.TakeLinear(name + "transform.dense", config.width, config.width);
  weights.mlm_norm = reader.TakeNorm(name + "transform.LayerNorm", config.width);
  const bool own_decoder = checkpoint.tensors.contains(name + "decoder.weight");
  weights.mlm_decoder =
      own_decoder ? reader.Take(name + "decoder.weight", {rows, config.width}) : weights.word_embeddings;
  // The decoder's bias is the same parameter under a second name; some files hold only that one.
  const bool only_second =
      !checkpoint.tensors.contains(name + "bias") && checkpoint.tensors.contains(name + "decoder.bias");
  weights.mlm_bias = reader.Take(name + (only_second ? "decoder.bias" : "bias"), {rows});
  reader.TakeDuplicate(name + "decoder.bias", name + "bias");
}

}  // namespace

TextNames TextNamesOf(const Checkpoint& checkpoint) {
  TextNames names;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with("bert.")) names.encoder = "bert.";
    if (name.starts_with("cls.predictions.")) names.masked_lm = true;
  }
  return names;
}

TextWeights TakeTextWeights(const ModelConfig& config, const TextNames& names, const Checkpoint& checkpoint,
                            ParameterReader& reader) {
  const int64_t width = config.width;
  const std::string embeddings = names.encoder + "embeddings.";
  TextWeights weights;
  // The table may have more rows than the vocabulary has entries: they are a fact.
  const auto words = checkpoint.tensors.find(embeddings + "word_embeddings.weight");
  const bool has_rows = words != checkpoint.tensors.end() && !words->second.shape.empty();
  const int64_t rows = has_rows ? words->second.shape[0] : config.vocabulary;
  weights.word_embeddings = reader.Take(embeddings + "word_embeddings.weight", {rows, width});
  if (config.max_positions > 0) {
    weights.position_embeddings = reader.Take(embeddings + "position_embeddings.weight", {config.max_positions, width});
  }
  weights.type_embeddings = reader.Take(embeddings + "token_type_embeddings.weight", {config.type_vocabulary, width});
  weights.embeddings_norm = reader.TakeNorm(embeddings + "LayerNorm", width);
  for (int64_t i = 0; i < config.depth; ++i) {
    weights.layers.push_back(TakeLayer(config, Concat(names.encoder, "encoder.layer.", i, "."), reader));
  }
  if (config.pooler) weights.pooler = reader.TakeLinear(names.encoder + "pooler.dense", width, width);
  if (config.masked_lm) TakeMaskedLm(config, checkpoint, rows, reader, weights);
  if (config.classes > 0) weights.classifier = reader.TakeLinear("classifier", config.classes, width);
  // Checkpoints hold these whether or not anything uses them.
  reader.Ignore(embeddings + "position_embeddings.weight");
  for (const char* buffer : {"position_ids", "token_type_ids"}) reader.Ignore(embeddings + buffer);
  for (const char* part : {"weight", "bias"}) reader.Ignore(std::string("cls.seq_relationship.") + part);
  return weights;
}

}  // namespace lion
