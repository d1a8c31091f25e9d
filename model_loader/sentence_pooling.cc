#include "model_loader/sentence_pooling.h"

#include <filesystem>

#include "model_loader/bytes.h"
#include "model_loader/checkpoint.h"
#include "model_loader/json_file.h"

namespace lion {
namespace {

using nlohmann::json;

std::string Text(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// "sentence_transformers.models.Pooling" -> "Pooling".
std::string ModuleKind(const json& module) {
  const std::string type = Text(module, "type");
  return type.substr(type.rfind('.') + 1);
}

}  // namespace

absl::StatusOr<std::optional<SentenceFolder>> ReadSentenceFolder(const std::string& folder) {
  const std::filesystem::path root(folder);
  auto modules = ReadJsonFile((root / "modules.json").string(), json::value_t::array);
  if (!modules.ok()) return modules.status();
  if (modules->is_null()) return std::nullopt;
  SentenceFolder result;
  result.modules = std::move(*modules);
  for (const json& module : result.modules) {
    if (ModuleKind(module) != "Pooling") continue;
    const std::string path = Text(module, "path");
    if (path.empty() || path == ".." || path.find('/') != std::string::npos || path.find('\0') != std::string::npos) {
      return InvalidFile((root / "modules.json").string(), ": the pooling module's path is no folder beside it");
    }
    auto pooling = ReadJsonFile((root / path / "config.json").string(), json::value_t::object);
    if (!pooling.ok()) return pooling.status();
    result.pooling = std::move(*pooling);
  }
  auto transformer = ReadJsonFile((root / "sentence_bert_config.json").string(), json::value_t::object);
  if (!transformer.ok()) return transformer.status();
  result.transformer = std::move(*transformer);
  return result;
}

void ClaimSentencePooling(const Checkpoint& checkpoint, Decision& pooling, ModelConfig& config, Findings& findings) {
  const SentenceFolder& folder = *checkpoint.sentence_folder;
  for (const json& module : folder.modules) {
    const std::string kind = ModuleKind(module);
    if (kind == "Normalize") config.normalize = true;
    if (kind != "Transformer" && kind != "Pooling" && kind != "Normalize") {
      findings.problems.push_back(Concat("modules.json has a module of type \"", Text(module, "type"),
                                         "\"; only Transformer, Pooling and Normalize are computed"));
    }
  }
  Source modes("1_Pooling/config.json", Rank::kConfig, folder.pooling, findings);
  const std::pair<const char*, Pooling> known[] = {{"pooling_mode_mean_tokens", Pooling::kMean},
                                                   {"pooling_mode_cls_token", Pooling::kCls},
                                                   {"pooling_mode_max_tokens", Pooling::kMax},
                                                   {"pooling_mode_lasttoken", Pooling::kLast}};
  for (const auto& [key, value] : known) {
    if (!modes.Boolean(key).value_or(false)) continue;
    pooling.Claim(Rank::kConfig, static_cast<int64_t>(value), std::string(PoolingName(value)), modes.Origin(key));
  }
  for (const char* key : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"}) {
    if (modes.Boolean(key).value_or(false)) findings.problems.push_back(modes.Origin(key) + " is not computed");
  }
  Source transformer("sentence_bert_config.json", Rank::kConfig, folder.transformer, findings);
  if (const auto length = transformer.Integer("max_seq_length")) {
    config.max_tokens = *length;
    findings.Note("longest text", std::to_string(*length), transformer.Origin("max_seq_length"));
    if (*length < 2 || (config.max_positions > 0 && *length > config.max_positions)) {
      findings.problems.push_back(Concat(transformer.Origin("max_seq_length"), " is ", *length, ", but there are ",
                                         config.max_positions, " positions"));
    }
  }
}

}  // namespace lion
