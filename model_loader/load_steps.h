// LoadModel in a form that keeps what was found when it fails. Private to model_loader.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "model_loader/checkpoint.h"
#include "model_loader/model_loader.h"

namespace lion {

// As LoadModel, but fills `checkpoint` and `model` as far as it gets. The model's views point into `checkpoint`.
absl::Status LoadInto(const std::string& path, const LoadOptions& options, Checkpoint& checkpoint, LoadedModel& model);

}  // namespace lion
