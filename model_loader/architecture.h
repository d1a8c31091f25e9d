// From a checkpoint's tensors and settings to a configuration and typed weights. Private to model_loader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model_loader/checkpoint.h"
#include "model_loader/model_loader.h"
#include "model_loader/parameter_reader.h"
#include "model_loader/settings.h"

namespace lion {

// Whether the names are those of the vision or of the text encoder. INVALID_ARGUMENT for neither, with what was found.
absl::StatusOr<Modality> DetectModality(const Checkpoint& checkpoint);

// Settle model.config and fill model.provenance, .warnings, .parameters and .vision or .text, as far as they get.
absl::Status ReadVisionModel(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& model);
absl::Status ReadTextModel(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& model);

// --- Shared by both.

// No dimension that is computed with may be larger. An empty tensor takes no room in a file, so it may claim any; up to
// this, no sum or product of sizes overflows.
inline constexpr int64_t kMaxDimension = int64_t{1} << 30;

// One more than the largest N of the names PREFIX N ".", at most `tensors`' size: gaps show as missing tensors.
int64_t CountLayers(const Checkpoint& checkpoint, const std::string& prefix);

// The first of the names that is there; null without any.
const TensorView* FindTensor(const Checkpoint& checkpoint, std::initializer_list<std::string> names);

// The name of the first tensor that starts with `prefix` and ends with one of `suffixes`; empty without any. What one
// layer lacks, another shows: the list of missing tensors then names the gap.
std::string FindInLayers(const Checkpoint& checkpoint, const std::string& prefix,
                         std::initializer_list<const char*> suffixes);

// Claims of mask type: the flag, config.json and the arguments.
void ClaimVariant(const LoadOptions& options, Source& config, Source& arguments, Decision& variant);

// `labels`: id2label of config.json and labels.txt, which must agree with each other and with `classes` (0: no head,
// labels are then ignored).
void SettleLabels(const Checkpoint& checkpoint, Source& config, LoadedModel& model, Findings& findings);

// Lists what does not fit; unused heads are dropped with a warning where the options allow it.
absl::Status FinishParameters(const ParameterReader& reader, const LoadOptions& options, LoadedModel& model);

// A model has a layer and every layer a width; heads divide the width.
void CheckSizes(const ModelConfig& config, Findings& findings);

}  // namespace lion
