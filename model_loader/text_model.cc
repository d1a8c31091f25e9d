// The text encoder's settings (docs/mathematics.md, sections 4 and 5). Its names and shapes: text_weights.cc.
#include "model_loader/architecture.h"
#include "model_loader/bytes.h"
#include "model_loader/sentence_pooling.h"
#include "model_loader/text_weights.h"

namespace lion {
namespace {

// What Hugging Face writes into config.json that changes nothing here.
constexpr std::initializer_list<const char*> kHarmlessKeys = {"_name_or_path",
                                                              "_attn_implementation_autoset",
                                                              "architectures",
                                                              "attention_probs_dropout_prob",
                                                              "auto_map",
                                                              "bos_token_id",
                                                              "classifier_dropout",
                                                              "directionality",
                                                              "dtype",
                                                              "eos_token_id",
                                                              "finetuning_task",
                                                              "gradient_checkpointing",
                                                              "hidden_dropout_prob",
                                                              "initializer_range",
                                                              "is_decoder",
                                                              "label2id",
                                                              "model_type",
                                                              "output_past",
                                                              "pad_token_id",
                                                              "pooler_fc_size",
                                                              "pooler_num_attention_heads",
                                                              "pooler_num_fc_layers",
                                                              "pooler_size_per_head",
                                                              "pooler_type",
                                                              "tie_word_embeddings",
                                                              "torch_dtype",
                                                              "transformers_version",
                                                              "use_cache"};

class TextSettings {
 public:
  TextSettings(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& model, Findings& findings)
      : checkpoint_(checkpoint),
        options_(options),
        model_(model),
        findings_(findings),
        names_(TextNamesOf(checkpoint)),
        gate_(InLayers({".attention.self.Wa_i.weight", ".attention.self.Wa_i.bias"})),
        decay_(InLayers({".attention.self.ai"})),
        config_("config.json", Rank::kConfig, checkpoint.config, findings),
        arguments_("checkpoint args", Rank::kArguments, checkpoint.arguments, findings) {}

  void Settle();
  const TextNames& names() const { return names_; }

 private:
  void SettleVariant();
  void SettleShape();
  void SettleHeads();
  void SettleActivation();
  void SettlePositions();
  void SettleVocabulary();
  void SettleOutputs();
  void SettlePooling();

  std::string InLayers(std::initializer_list<const char*> suffixes) const {
    return FindInLayers(checkpoint_, names_.encoder + "encoder.layer.", suffixes);
  }
  bool Has(const std::string& name) const { return checkpoint_.tensors.contains(name); }
  // Dimension `axis` of a tensor; 0 where the tensor or the dimension is absent.
  int64_t Dimension(const std::string& name, size_t axis) const;
  int64_t SettleFact(const char* title, const char* key, int64_t value, const std::string& origin);
  // The first dimension of a tensor. Where it is absent, what config.json promises: the list of missing tensors says
  // so.
  int64_t SettleSize(const char* title, const char* key, const std::string& tensor, int64_t otherwise);

  const Checkpoint& checkpoint_;
  const LoadOptions& options_;
  LoadedModel& model_;
  Findings& findings_;
  TextNames names_;
  // A tensor of LION-S's gates and of LION-D's decays in any layer, or empty.
  const std::string gate_, decay_;
  Source config_, arguments_;
};

int64_t TextSettings::Dimension(const std::string& name, size_t axis) const {
  const TensorView* tensor = FindTensor(checkpoint_, {name});
  return tensor != nullptr && axis < tensor->shape.size() ? tensor->shape[axis] : 0;
}

int64_t TextSettings::SettleFact(const char* title, const char* key, int64_t value, const std::string& origin) {
  Decision decision(title, "");
  decision.ClaimInteger(config_, key);
  decision.Fact(value, std::to_string(value), origin);
  decision.Settle(findings_);
  return value;
}

int64_t TextSettings::SettleSize(const char* title, const char* key, const std::string& tensor, int64_t otherwise) {
  if (!Has(tensor)) return config_.Integer(key).value_or(otherwise);
  return SettleFact(title, key, Dimension(tensor, 0), "tensor " + tensor);
}

void TextSettings::SettleVariant() {
  Decision variant("mask type", "give --mask-type lit|d|s|softmax");
  ClaimVariant(options_, config_, arguments_, variant);
  const auto fact = [&variant](Variant value, const std::string& tensor) {
    variant.Fact(static_cast<int64_t>(value), std::string(VariantName(value)), "tensor " + tensor);
  };
  if (!gate_.empty()) {
    fact(Variant::kLionS, gate_);
  } else if (!decay_.empty()) {
    fact(Variant::kLionD, decay_);
  } else {
    const std::string reason = "there are no tensors ai or Wa_i, so it is LION-LIT or softmax";
    variant.Exclude(static_cast<int64_t>(Variant::kLionS), reason);
    variant.Exclude(static_cast<int64_t>(Variant::kLionD), reason);
  }
  if (checkpoint_.sentence_folder) {
    variant.Default(static_cast<int64_t>(Variant::kSoftmax), std::string(VariantName(Variant::kSoftmax)),
                    "modules.json: sentence encoders without arch_type are ordinary BERT");
  }
  if (const auto value = variant.Settle(findings_)) model_.config.variant = static_cast<Variant>(*value);
}

void TextSettings::SettleShape() {
  ModelConfig& config = model_.config;
  const std::string words = names_.encoder + "embeddings.word_embeddings.weight";
  const std::string norm = names_.encoder + "embeddings.LayerNorm.weight";
  config.width = Has(norm) ? Dimension(norm, 0) : Dimension(words, 1);
  if (config.width <= 0 || config.width > kMaxDimension) {
    findings_.problems.push_back(
        Concat("width: tensors ", norm, " [D] and ", words, " [V, D] are absent or misshapen"));
    return;
  }
  SettleFact("width", "hidden_size", config.width, "tensor " + norm);
  config.depth = CountLayers(checkpoint_, names_.encoder + "encoder.layer.");
  SettleFact("depth", "num_hidden_layers", config.depth, "the tensors encoder.layer.N");
  const std::string mlp = InLayers({".intermediate.dense.bias"});
  config.mlp_width = SettleSize("mlp width", "intermediate_size", mlp, 4 * config.width);
  config.type_vocabulary =
      SettleSize("token types", "type_vocab_size", names_.encoder + "embeddings.token_type_embeddings.weight", 2);
  Decision norm_after("mixer layer norm", "");
  norm_after.ClaimBoolean(config_, "layer_norm_after");
  const std::string norm_name = InLayers({".attention.self.layer_norm.weight", ".attention.self.layer_norm.bias"});
  config.mixer_layer_norm = !norm_name.empty();
  norm_after.Fact(config.mixer_layer_norm, config.mixer_layer_norm ? "true" : "false",
                  config.mixer_layer_norm ? "tensor " + norm_name : "the absence of tensors attention.self.layer_norm");
  norm_after.Settle(findings_);
  config.layer_norm_eps = 1e-12;
  const auto eps = config_.Real("layer_norm_eps");
  if (eps && *eps > 0 && *eps < 1) config.layer_norm_eps = *eps;
  if (eps && !(*eps > 0 && *eps < 1)) findings_.problems.push_back(Concat("config.json layer_norm_eps is ", *eps));
  findings_.Note("layer norm epsilon", Concat(config.layer_norm_eps), eps ? "config.json layer_norm_eps" : "default");
}

void TextSettings::SettleHeads() {
  Decision heads("heads", "give --heads");
  if (options_.heads) heads.Claim(Rank::kFlag, *options_.heads, std::to_string(*options_.heads), "--heads");
  heads.ClaimInteger(config_, "num_attention_heads");
  if (const std::string& tensor = gate_.empty() ? decay_ : gate_; !tensor.empty()) {
    const int64_t count = Dimension(tensor, 0);
    heads.Fact(count, std::to_string(count), "tensor " + tensor);
  }
  const auto value = heads.Settle(findings_);
  if (!value) return;
  model_.config.heads = *value;
  CheckSizes(model_.config, findings_);
}

void TextSettings::SettleActivation() {
  const auto activation = config_.Text("hidden_act");
  if (!activation || *activation == "gelu" || *activation == "gelu_python") return;
  findings_.problems.push_back(
      Concat("config.json hidden_act is ", *activation, "; only gelu (the exact one) is computed"));
}

void TextSettings::SettlePositions() {
  const bool lion_with_decay = model_.config.variant == Variant::kLionD || model_.config.variant == Variant::kLionS;
  const auto type = config_.Text("position_embedding_type");
  bool absolute = !lion_with_decay;
  std::string origin = lion_with_decay ? "LION-D and LION-S have none unless config.json says absolute"
                                       : "default of LION-LIT and softmax";
  if (type) {
    absolute = *type == "absolute";
    origin = "config.json position_embedding_type (" + *type + ")";
    if (!absolute && *type != "relative_key" && *type != "relative_key_query") {
      findings_.problems.push_back(Concat("config.json position_embedding_type is ", *type,
                                          ", expected absolute, relative_key or relative_key_query"));
    } else if (!absolute && model_.config.variant == Variant::kSoftmax) {
      findings_.problems.push_back(Concat("config.json position_embedding_type is ", *type,
                                          ", which softmax attention needs distances for: only absolute is computed"));
    }
  }
  const std::string table = names_.encoder + "embeddings.position_embeddings.weight";
  if (!absolute) {
    config_.Ignore({"max_position_embeddings"});
    findings_.Note("positions", "none, any length", origin);
    return;
  }
  model_.config.max_positions = SettleSize("positions", "max_position_embeddings", table, 512);
}

void TextSettings::SettleVocabulary() {
  const std::string table = names_.encoder + "embeddings.word_embeddings.weight";
  const int64_t rows = Dimension(table, 0);
  const auto claimed = config_.Integer("vocab_size");
  int64_t& vocabulary = model_.config.vocabulary;
  vocabulary = checkpoint_.vocabulary.value_or(claimed.value_or(rows));
  const std::string origin = checkpoint_.vocabulary ? checkpoint_.vocabulary_origin
                             : claimed              ? "config.json vocab_size"
                                                    : "tensor " + table;
  if (!Has(table)) return;  // as the list of missing tensors will say
  for (const auto& [size, who] : {std::pair{vocabulary, origin}, {claimed.value_or(rows), "config.json vocab_size"}}) {
    if (size > 0 && size <= rows) continue;
    findings_.problems.push_back(
        Concat("vocabulary: ", who, " gives ", size, " entries, but tensor ", table, " has ", rows, " rows"));
    return;
  }
  findings_.Note("vocabulary", Concat(vocabulary, " of ", rows, " rows"), origin);
}

void TextSettings::SettleOutputs() {
  ModelConfig& config = model_.config;
  config.masked_lm = names_.masked_lm;
  const TensorView* classifier = FindTensor(checkpoint_, {"classifier.weight", "classifier.bias"});
  config.pooler = Has(names_.encoder + "pooler.dense.weight") || classifier != nullptr;
  findings_.Note("masked LM head", config.masked_lm ? "yes" : "no", "the tensors cls.predictions");
  findings_.Note("pooler", config.pooler ? "yes" : "no", "the tensors pooler.dense");
  if (classifier == nullptr) {
    // Hugging Face writes two meaningless labels into every configuration.
    config_.Ignore({"id2label", "num_labels", "problem_type"});
    findings_.Note("classes", "0", "the absence of tensor classifier.weight");
    return;
  }
  config.classes = SettleFact("classes", "num_labels", classifier->shape.empty() ? 0 : classifier->shape[0],
                              "tensor classifier.weight");
  config.regression = config.classes == 1;
  if (const auto problem = config_.Text("problem_type")) {
    const bool fits = *problem == (config.regression ? "regression" : "single_label_classification");
    if (!fits) {
      findings_.problems.push_back(Concat("config.json problem_type is ", *problem, ", but the classifier with ",
                                          config.classes, " outputs is served as ",
                                          config.regression ? "regression" : "single_label_classification"));
    }
  }
  findings_.Note("task", config.regression ? "regression" : "classification", "tensor classifier.weight");
  SettleLabels(checkpoint_, config_, model_, findings_);
}

void TextSettings::SettlePooling() {
  Decision pooling("pooling", "give --pooling");
  if (options_.pooling) {
    pooling.Claim(Rank::kFlag, static_cast<int64_t>(*options_.pooling), std::string(PoolingName(*options_.pooling)),
                  "--pooling");
  }
  ClaimName(pooling, config_, "pooling", ParsePooling, PoolingName, "mean, cls, pooler, max, last, none");
  if (checkpoint_.sentence_folder) ClaimSentencePooling(checkpoint_, pooling, model_.config, findings_);
  pooling.Default(static_cast<int64_t>(Pooling::kMean), "mean", "default");
  if (!model_.config.pooler) {
    pooling.Exclude(static_cast<int64_t>(Pooling::kPooler), "there is no tensor pooler.dense.weight");
  }
  if (const auto value = pooling.Settle(findings_)) model_.config.pooling = static_cast<Pooling>(*value);
  if (const auto normalize = config_.Boolean("normalize")) model_.config.normalize = *normalize;
  findings_.Note("normalize", model_.config.normalize ? "true" : "false",
                 config_.Value("normalize") != nullptr ? "config.json normalize"
                 : model_.config.normalize             ? "modules.json"
                                                       : "default");
}

void TextSettings::Settle() {
  config_.Ignore(kHarmlessKeys);
  SettleVariant();
  SettleShape();
  SettleHeads();
  SettleActivation();
  SettlePositions();
  SettleVocabulary();
  SettleOutputs();
  SettlePooling();
  config_.WarnOfUnknownKeys();
}

}  // namespace

absl::Status ReadTextModel(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& model) {
  Findings findings;
  TextSettings settings(checkpoint, options, model, findings);
  settings.Settle();
  model.provenance = std::move(findings.provenance);
  model.warnings.insert(model.warnings.end(), findings.warnings.begin(), findings.warnings.end());
  if (auto status = findings.status(); !status.ok()) return status;
  ParameterReader reader(checkpoint.tensors);
  model.text = TakeTextWeights(model.config, settings.names(), checkpoint, reader);
  model.parameters = reader.parameters();
  return FinishParameters(reader, options, model);
}

}  // namespace lion
