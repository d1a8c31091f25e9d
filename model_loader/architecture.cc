#include "model_loader/architecture.h"

#include <charconv>

#include "model_loader/bytes.h"

namespace lion {
namespace {

// id2label as a list, keys "0", "1", ...; null without it.
std::optional<std::vector<std::string>> ReadIdToLabel(Source& config) {
  const nlohmann::json* value = config.Value("id2label");
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> labels(value->size());
  bool well_formed = value->is_object() || value->is_array();
  for (size_t i = 0; well_formed && i < labels.size(); ++i) {
    const nlohmann::json* label = nullptr;
    if (value->is_array()) {
      label = &(*value)[i];
    } else if (const auto found = value->find(std::to_string(i)); found != value->end()) {
      label = &*found;
    }
    well_formed = label != nullptr && label->is_string();
    if (well_formed) labels[i] = label->get<std::string>();
  }
  if (well_formed) return labels;
  config.findings().problems.push_back(
      Concat(config.Origin("id2label"), " does not map \"0\" to \"", value->size() - 1, "\" to strings"));
  return std::nullopt;
}

// Tensors of output heads stand beside the encoder: head_dist.weight, qa_outputs.bias, cls.predictions.bias.
bool IsHead(const std::string& name) {
  for (const char* start :
       {"head", "aux_head", "lm_head", "classifier", "qa_outputs", "cls.", "pooler.", "bert.pooler."}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<Modality> DetectModality(const Checkpoint& checkpoint) {
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with("patch_embed.") || name.starts_with("blocks.")) return Modality::kVision;
    if (name.starts_with("bert.") || name.starts_with("embeddings.") || name.starts_with("encoder.layer.")) {
      return Modality::kText;
    }
  }
  std::string names;
  size_t shown = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (shown++ == 5) break;
    names += (names.empty() ? "" : ", ") + name;
  }
  return InvalidFile(
      "its ", checkpoint.tensors.size(), " tensors (", names,
      ", ...) are neither those of a vision encoder (patch_embed.proj.weight, blocks.0...) nor of a text "
      "encoder (bert.embeddings..., encoder.layer.0...)");
}

int64_t CountLayers(const Checkpoint& checkpoint, const std::string& prefix) {
  int64_t count = 0;
  const int64_t limit = static_cast<int64_t>(checkpoint.tensors.size());
  for (auto it = checkpoint.tensors.lower_bound(prefix); it != checkpoint.tensors.end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    int64_t index = 0;
    const char *begin = it->first.data() + prefix.size(), *end = it->first.data() + it->first.size();
    const auto parsed = std::from_chars(begin, end, index);
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '.' && index >= 0 && index < limit) {
      count = std::max(count, index + 1);
    }
  }
  return count;
}

const TensorView* FindTensor(const Checkpoint& checkpoint, std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    if (const auto found = checkpoint.tensors.find(name); found != checkpoint.tensors.end()) return &found->second;
  }
  return nullptr;
}

std::string FindInLayers(const Checkpoint& checkpoint, const std::string& prefix,
                         std::initializer_list<const char*> suffixes) {
  for (const char* suffix : suffixes) {
    for (auto it = checkpoint.tensors.lower_bound(prefix); it != checkpoint.tensors.end(); ++it) {
      if (!it->first.starts_with(prefix)) break;
      if (it->first.ends_with(suffix) && !it->second.shape.empty()) return it->first;
    }
  }
  return "";
}

void ClaimVariant(const LoadOptions& options, Source& config, Source& arguments, Decision& variant) {
  constexpr char kAccepted[] =
      "Lit, Decay, Selective, Softmax, lion-lit, lion-d, lion-retnet, lion-s, linear_attention, nova, nova-inputdep, "
      "attention";
  if (options.variant) {
    variant.Claim(Rank::kFlag, static_cast<int64_t>(*options.variant), std::string(VariantName(*options.variant)),
                  "--mask-type");
  }
  for (Source* source : {&config, &arguments}) {
    for (const char* key : {"mask_type", "arch_type"})
      ClaimName(variant, *source, key, ParseVariant, VariantName, kAccepted);
  }
}

void SettleLabels(const Checkpoint& checkpoint, Source& config, LoadedModel& model, Findings& findings) {
  auto labels = ReadIdToLabel(config);
  std::string origin = config.Origin("id2label");
  if (checkpoint.labels) {
    if (labels && *labels != *checkpoint.labels) {
      findings.problems.push_back(Concat("labels: ", origin, " and labels.txt differ"));
      return;
    }
    if (!labels) origin = "labels.txt";
    labels = checkpoint.labels;
  }
  if (!labels) return;
  if (model.config.classes == 0) {
    findings.warnings.push_back(origin + " is ignored: the model has no classification head");
    return;
  }
  if (static_cast<int64_t>(labels->size()) != model.config.classes) {
    findings.problems.push_back(
        Concat("labels: ", origin, " names ", labels->size(), ", but the head has ", model.config.classes, " outputs"));
    return;
  }
  findings.Note("labels", std::to_string(labels->size()), origin);
  model.config.labels = std::move(*labels);
}

absl::Status FinishParameters(const ParameterReader& reader, const LoadOptions& options, LoadedModel& model) {
  const auto may_drop = [&options](const std::string& name) { return options.allow_unused && IsHead(name); };
  std::vector<std::string> dropped;
  absl::Status status = reader.Finish(may_drop, &dropped);
  for (const std::string& name : dropped) model.warnings.push_back("unused tensor " + name + " is dropped");
  return status;
}

void CheckSizes(const ModelConfig& config, Findings& findings) {
  const std::pair<const char*, int64_t> sizes[] = {{"depth", config.depth}, {"mlp width", config.mlp_width}};
  for (const auto& [name, size] : sizes) {
    if (size <= 0) findings.problems.push_back(Concat(name, ": it is ", size, ", expected 1 or more"));
  }
  if (config.heads > 0 && config.width % config.heads == 0) return;
  findings.problems.push_back(Concat("heads: ", config.heads, " do not divide the width ", config.width));
}

}  // namespace lion
