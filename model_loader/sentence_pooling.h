// The pooling of a sentence encoder's folder: modules.json, 1_Pooling/config.json, sentence_bert_config.json. Private
// to model_loader.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "model_loader/settings.h"

namespace lion {

struct Checkpoint;

// What such a folder says.
struct SentenceFolder {
  nlohmann::json modules;      // modules.json: an array
  nlohmann::json pooling;      // the pooling module's config.json: an object, or null
  nlohmann::json transformer;  // sentence_bert_config.json: an object, or null
};

// No value where `folder` has no modules.json.
absl::StatusOr<std::optional<SentenceFolder>> ReadSentenceFolder(const std::string& folder);

// Claims the pooling, sets config.normalize and limits config.max_tokens. A module or a pooling that is not computed
// here is a problem. Needs checkpoint.sentence_folder.
void ClaimSentencePooling(const Checkpoint& checkpoint, Decision& pooling, ModelConfig& config, Findings& findings);

}  // namespace lion
