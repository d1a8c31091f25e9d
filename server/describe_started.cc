#include "server/describe_started.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

std::string Tokenizing(const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return "no tokenizer";
  return absl::StrCat("tokenizer of ", tokenizer->vocabulary(), " tokens",
                      tokenizer->mask_id().has_value() ? "" : ", none of them a mask");
}

// What only one of the modalities has.
std::string Shape(const ModelConfig& config) {
  if (config.modality == Modality::kVision) {
    return absl::StrCat("order ", std::string(PatchOrderName(config.order)), ", patch ", config.patch_size, ", image ",
                        config.image.size, " (", std::string(ResizeName(config.image.resize)), ")");
  }
  return absl::StrCat(
      "vocabulary ", config.vocabulary, ", ",
      config.max_positions > 0 ? absl::StrCat(config.max_positions, " positions") : std::string("no positions"),
      config.pooler ? ", pooler" : "", config.masked_lm ? ", masked-token head" : "");
}

}  // namespace

std::string DescribeStarted(const std::string& name, const LoadedModel& loaded, const ModelService& service) {
  const ModelConfig& config = loaded.config;
  const Engine& engine = service.engine();
  const ModelServiceOptions& limits = service.options();
  std::string text = absl::StrCat("model ", name, "\n  file        ", loaded.file, " (", loaded.format, ", ",
                                  loaded.file_bytes / kMiB, " MiB)");
  if (!loaded.weights.empty()) absl::StrAppend(&text, "\n  weights     ", loaded.weights);
  if (!loaded.stripped_prefix.empty())
    absl::StrAppend(&text, "\n  prefix      ", loaded.stripped_prefix, " (stripped)");
  absl::StrAppend(&text, "\n  model       ", std::string(VariantName(config.variant)),
                  config.modality == Modality::kText ? " of text, " : " of images, ", loaded.parameters, " parameters");
  absl::StrAppend(&text, "\n  shape       D ", config.width, ", heads ", config.heads, ", depth ", config.depth, ", ",
                  Shape(config));
  absl::StrAppend(&text, "\n  outputs     pooling ", std::string(PoolingName(config.pooling)),
                  config.normalize ? " normalized" : "", ", ", config.classes, " classes, ", config.labels.size(),
                  " labels");
  absl::StrAppend(&text, "\n  device      ", engine.device(), ", ", std::string(ComputeTypeName(engine.compute_type())),
                  ", isa ", engine.isa(), ", ", engine.threads(), " threads");
  absl::StrAppend(&text, "\n  limits      batch ", limits.max_batch_tokens, " tokens and ", limits.max_batch_inputs,
                  " inputs, input ", limits.max_input_tokens, " tokens, queue ", limits.max_queue_tokens,
                  " tokens, call ", limits.max_inputs_per_call, " inputs, ",
                  config.modality == Modality::kText
                      ? absl::StrCat("text ", limits.max_text_bytes, " bytes, ", Tokenizing(service.tokenizer()))
                      : absl::StrCat("image ", limits.max_image_pixels, " pixels"));
  absl::StrAppend(&text, "\n  memory      weights ", engine.weight_bytes() / kMiB, " MiB, activations ",
                  engine.bytes_per_token() * engine.max_batch_tokens() / kMiB, " MiB (", engine.bytes_per_token(),
                  " bytes a token)");
  // Where each value of the architecture comes from: a line per origin.
  std::vector<std::pair<std::string, std::string>> origins;
  for (const Provenance& value : loaded.provenance) {
    const auto known = std::find_if(origins.begin(), origins.end(),
                                    [&value](const auto& origin) { return origin.first == value.origin; });
    const std::string setting = absl::StrCat(value.key, " ", value.value);
    if (known == origins.end()) {
      origins.emplace_back(value.origin, setting);
    } else {
      absl::StrAppend(&known->second, ", ", setting);
    }
  }
  for (const auto& [origin, settings] : origins) absl::StrAppend(&text, "\n  from        ", origin, ": ", settings);
  return text;
}

}  // namespace lion
