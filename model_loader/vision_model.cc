// The vision encoder's names and shapes (docs/mathematics.md, section 3) and its settings (sections 3 and 5).
#include <cmath>
#include <map>

#include "model_loader/architecture.h"
#include "model_loader/bytes.h"
#include "model_loader/image_settings.h"
#include "model_loader/parameter_reader.h"

namespace lion {
namespace {

class VisionSettings {
 public:
  VisionSettings(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& model, Findings& findings)
      : checkpoint_(checkpoint),
        options_(options),
        model_(model),
        findings_(findings),
        gate_(FindInLayers(checkpoint, "blocks.", {".attn.a_i.weight", ".attn.a_i.bias"})),
        decay_(FindInLayers(checkpoint, "blocks.", {".attn.a_i"})),
        columns_(FindInLayers(checkpoint, "blocks.", {".attn.a2_i.weight", ".attn.a2_i.bias", ".attn.a2_i"})),
        config_("config.json", Rank::kConfig, checkpoint.config, findings),
        arguments_("checkpoint args", Rank::kArguments, checkpoint.arguments, findings) {}

  void Settle();

 private:
  void SettleVariant();
  void SettleOrder();
  int64_t Width() const;
  void SettleShape();
  void SettleHeads();
  void SettlePositions();
  void SettlePooling();
  void SettleClasses();
  std::optional<int64_t> NamedHeads(std::string* name);

  // A value that tensors alone decide; config.json's and the arguments' must agree.
  void SettleFact(const char* key, std::initializer_list<const char*> names, int64_t value, const std::string& origin);

  const Checkpoint& checkpoint_;
  const LoadOptions& options_;
  LoadedModel& model_;
  Findings& findings_;
  // A tensor of each kind in any block, or empty: gates of LION-S, decays of LION-D, either's second one for order S.
  const std::string gate_, decay_, columns_;
  Source config_, arguments_;
};

void VisionSettings::SettleFact(const char* key, std::initializer_list<const char*> names, int64_t value,
                                const std::string& origin) {
  Decision decision(key, "");
  for (const char* name : names) {
    decision.ClaimInteger(config_, name);
    decision.ClaimInteger(arguments_, name);
  }
  decision.Fact(value, std::to_string(value), origin);
  decision.Settle(findings_);
}

void VisionSettings::SettleVariant() {
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
    const std::string reason = "there are no tensors blocks.N.attn.a_i, so it is LION-LIT or softmax";
    variant.Exclude(static_cast<int64_t>(Variant::kLionS), reason);
    variant.Exclude(static_cast<int64_t>(Variant::kLionD), reason);
  }
  if (const auto value = variant.Settle(findings_)) model_.config.variant = static_cast<Variant>(*value);
}

void VisionSettings::SettleOrder() {
  Decision order("patch order", "give --order normal|s");
  if (options_.order) {
    order.Claim(Rank::kFlag, static_cast<int64_t>(*options_.order), std::string(PatchOrderName(*options_.order)),
                "--order");
  }
  for (Source* source : {&config_, &arguments_})
    ClaimName(order, *source, "order", ParsePatchOrder, PatchOrderName, "Normal, S");
  if (!gate_.empty() || !decay_.empty()) {
    const PatchOrder value = columns_.empty() ? PatchOrder::kNormal : PatchOrder::kS;
    order.Fact(static_cast<int64_t>(value), std::string(PatchOrderName(value)),
               columns_.empty() ? "the absence of tensors blocks.N.attn.a2_i" : "tensor " + columns_);
  } else {
    order.Default(static_cast<int64_t>(PatchOrder::kNormal), "normal", "of no effect without a decay");
  }
  if (const auto value = order.Settle(findings_)) model_.config.order = static_cast<PatchOrder>(*value);
}

// What most of these tensors say, so that one misshapen tensor is told from all the others.
int64_t VisionSettings::Width() const {
  std::map<int64_t, int> votes;
  const auto vote = [&](const char* name, size_t axis) {
    const TensorView* tensor = FindTensor(checkpoint_, {name});
    if (tensor != nullptr && axis < tensor->shape.size()) ++votes[tensor->shape[axis]];
  };
  vote("patch_embed.proj.weight", 0);
  vote("cls_token", 2);
  vote("norm.weight", 0);
  int64_t width = 0;
  for (const auto& [value, count] : votes) {
    if (width == 0 || count > votes[width]) width = value;
  }
  return width;
}

void VisionSettings::SettleShape() {
  ModelConfig& config = model_.config;
  const TensorView* patch = FindTensor(checkpoint_, {"patch_embed.proj.weight"});
  if (patch != nullptr && patch->shape.size() == 4) {
    config.patch_size = patch->shape[3];
    SettleFact("patch size", {"patch_size"}, config.patch_size, "tensor patch_embed.proj.weight");
  } else {
    // The tensor is missing or misshapen, which the list of those will say.
    config.patch_size = config_.Integer("patch_size").value_or(config.patch_size);
  }
  config.width = Width();
  const auto out_of_range = [](int64_t size) { return size <= 0 || size > kMaxDimension; };
  if (out_of_range(config.width) || out_of_range(config.patch_size)) {
    findings_.problems.push_back(
        "width and patch size: tensors norm.weight [D] and patch_embed.proj.weight [D, 3, P, P] "
        "are absent or misshapen");
    return;
  }
  SettleFact("width", {"embed_dim"}, config.width, "the tensors");
  config.depth = CountLayers(checkpoint_, "blocks.");
  SettleFact("depth", {"depth"}, config.depth, "the tensors blocks.N");
  const std::string mlp = FindInLayers(checkpoint_, "blocks.", {".mlp.fc1.bias"});
  config.mlp_width = mlp.empty() ? 4 * config.width : checkpoint_.tensors.at(mlp).shape[0];
  findings_.Note("mlp width", std::to_string(config.mlp_width), mlp.empty() ? "default, 4 D" : "tensor " + mlp);
}

// From names such as lion_tiny_patch16_224, where the width is that size's too.
std::optional<int64_t> VisionSettings::NamedHeads(std::string* name) {
  struct Size {
    const char* name;
    int64_t width, heads;
  };
  static constexpr Size kSizes[] = {{"tiny", 192, 3}, {"small", 384, 6}, {"base", 768, 12}};
  const auto text = arguments_.Text("model");
  if (!text) return std::nullopt;
  *name = *text;
  const std::string padded = "_" + *text + "_";
  for (const Size& size : kSizes) {
    if (padded.find(Concat("_", size.name, "_")) != std::string::npos && model_.config.width == size.width) {
      return size.heads;
    }
  }
  return std::nullopt;
}

void VisionSettings::SettleHeads() {
  Decision heads("heads", "give --heads");
  if (options_.heads) heads.Claim(Rank::kFlag, *options_.heads, std::to_string(*options_.heads), "--heads");
  heads.ClaimInteger(config_, "num_heads");
  heads.ClaimInteger(arguments_, "num_heads");
  if (const std::string& tensor = gate_.empty() ? decay_ : gate_; !tensor.empty()) {
    const int64_t count = checkpoint_.tensors.at(tensor).shape[0];
    heads.Fact(count, std::to_string(count), "tensor " + tensor);
  } else {
    std::string name;
    if (const auto named = NamedHeads(&name)) {
      heads.Claim(Rank::kNamedSize, *named, std::to_string(*named), "checkpoint args model (" + name + ")");
    }
  }
  const auto value = heads.Settle(findings_);
  if (!value) return;
  model_.config.heads = *value;
  CheckSizes(model_.config, findings_);
}

void VisionSettings::SettlePositions() {
  const TensorView* positions = FindTensor(checkpoint_, {"pos_embed"});
  Decision there("position embeddings", "");
  there.ClaimBoolean(config_, "pos_emb");
  there.ClaimBoolean(arguments_, "pos_emb");
  there.Fact(positions != nullptr, positions != nullptr ? "true" : "false",
             positions != nullptr ? "tensor pos_embed" : "the absence of tensor pos_embed");
  there.Settle(findings_);
  if (positions == nullptr) return;
  const bool measurable =
      positions->shape.size() == 3 && positions->shape[1] > 0 && positions->shape[1] < kMaxDimension;
  const int64_t patches = measurable ? positions->shape[1] - 1 : 0;
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(patches))));
  if (side == 0 || side * side != patches) {
    findings_.problems.push_back("position grid: tensor pos_embed is " + ShapeText(positions->shape) +
                                 ", expected [1, 1 + n * n, D] for a square grid");
    return;
  }
  model_.config.position_grid = side;
  findings_.Note("position grid", Concat(side, " x ", side), "tensor pos_embed");
}

void VisionSettings::SettlePooling() {
  Decision pooling("pooling", "give --pooling mean|cls");
  const auto claim = [&pooling](Rank rank, Pooling value, const std::string& origin) {
    pooling.Claim(rank, static_cast<int64_t>(value), std::string(PoolingName(value)), origin);
  };
  if (options_.pooling) claim(Rank::kFlag, *options_.pooling, "--pooling");
  ClaimName(pooling, config_, "pooling", ParsePooling, PoolingName, "mean, cls");
  for (Source* source : {&config_, &arguments_}) {
    const auto token = source->Boolean("cls_tok");
    if (token) claim(source->rank(), *token ? Pooling::kCls : Pooling::kMean, source->Origin("cls_tok"));
  }
  for (Pooling unfit : {Pooling::kPooler, Pooling::kMax, Pooling::kLast, Pooling::kNone}) {
    pooling.Exclude(static_cast<int64_t>(unfit), "a vision encoder pools by mean or cls");
  }
  if (const auto value = pooling.Settle(findings_)) model_.config.pooling = static_cast<Pooling>(*value);
  if (const auto normalize = config_.Boolean("normalize")) {
    model_.config.normalize = *normalize;
    findings_.Note("normalize", *normalize ? "true" : "false", config_.Origin("normalize"));
  }
}

void VisionSettings::SettleClasses() {
  const TensorView* head = FindTensor(checkpoint_, {"head.weight", "head.bias"});
  if (head != nullptr && !head->shape.empty()) {
    model_.config.classes = head->shape[0];
    SettleFact("classes", {"num_classes", "nb_classes"}, head->shape[0], "tensor head.weight");
  } else {
    // A head is often cut off a trained model, with its training settings left as they were.
    findings_.Note("classes", "0", "the absence of tensor head.weight");
    for (const auto& [source, key] : {std::pair{&config_, "num_classes"}, std::pair{&arguments_, "nb_classes"}}) {
      const auto classes = source->Integer(key);
      if (!classes || *classes == 0) continue;
      findings_.warnings.push_back(
          Concat(source->Origin(key), " is ", *classes,
                 ", but there is no tensor head.weight: ", "the model gives embeddings, not classes"));
    }
  }
  SettleLabels(checkpoint_, config_, model_, findings_);
}

void VisionSettings::Settle() {
  SettleVariant();
  SettleOrder();
  SettleShape();
  SettleHeads();
  SettlePositions();
  SettlePooling();
  SettleClasses();
  SettleImage(config_, arguments_, model_.config, findings_);
  config_.WarnOfUnknownKeys();
}

VisionWeights TakeVisionWeights(const ModelConfig& config, ParameterReader& reader) {
  const int64_t width = config.width, heads = config.heads;
  VisionWeights weights;
  weights.patch.weight = reader.Take("patch_embed.proj.weight", {width, 3, config.patch_size, config.patch_size});
  weights.patch.bias = reader.Take("patch_embed.proj.bias", {width});
  weights.cls_token = reader.Take("cls_token", {1, 1, width});
  if (config.position_grid > 0) {
    weights.pos_embed = reader.Take("pos_embed", {1, 1 + config.position_grid * config.position_grid, width});
  }
  for (int64_t i = 0; i < config.depth; ++i) {
    const std::string name = Concat("blocks.", i, ".");
    VisionBlockWeights block;
    block.norm1 = reader.TakeNorm(name + "norm1", width);
    block.qkv = reader.TakeLinear(name + "attn.qkv", 3 * width, width);
    if (config.variant == Variant::kLionS) block.gate = reader.TakeLinear(name + "attn.a_i", heads, width);
    if (config.variant == Variant::kLionD) block.decay = reader.Take(name + "attn.a_i", {heads});
    if (config.order == PatchOrder::kS) {
      if (config.variant == Variant::kLionS) block.gate2 = reader.TakeLinear(name + "attn.a2_i", heads, width);
      if (config.variant == Variant::kLionD) block.decay2 = reader.Take(name + "attn.a2_i", {heads});
    }
    block.proj = reader.TakeLinear(name + "attn.proj", width, width);
    block.norm2 = reader.TakeNorm(name + "norm2", width);
    block.fc1 = reader.TakeLinear(name + "mlp.fc1", config.mlp_width, width);
    block.fc2 = reader.TakeLinear(name + "mlp.fc2", width, config.mlp_width);
    weights.blocks.push_back(std::move(block));
  }
  weights.norm = reader.TakeNorm("norm", width);
  if (config.classes > 0) weights.head = reader.TakeLinear("head", config.classes, width);
  return weights;
}

}  // namespace

absl::Status ReadVisionModel(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& model) {
  Findings findings;
  VisionSettings(checkpoint, options, model, findings).Settle();
  model.provenance = std::move(findings.provenance);
  model.warnings.insert(model.warnings.end(), findings.warnings.begin(), findings.warnings.end());
  if (auto status = findings.status(); !status.ok()) return status;
  ParameterReader reader(checkpoint.tensors);
  model.vision = TakeVisionWeights(model.config, reader);
  model.parameters = reader.parameters();
  return FinishParameters(reader, options, model);
}

}  // namespace lion
