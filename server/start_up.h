// From paths to warmed-up models.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "model_loader/model_loader.h"
#include "server/model_service.h"

namespace lion {

struct ModelSpec {
  std::string name;
  std::string path;
};

// "[NAME=]PATH" each. Without a name it is the folder's, or the file's without its ending; of a file that says nothing
// ("checkpoint.pth", "model.safetensors") its folder's. INVALID_ARGUMENT: none, an empty part, a name twice or one
// that is not printable UTF-8.
absl::StatusOr<std::vector<ModelSpec>> ParseModelSpecs(const std::vector<std::string>& specs);

struct StartUpOptions {
  LoadOptions load;      // of every model
  EngineOptions engine;  // max_batch_tokens follows from `service` and from the memory, which the models share
  ModelServiceOptions service;
  int64_t warm_up_ms = 3000;  // of each model; at least one image is run
};

// Why a start failed, which decides the process's exit code.
struct StartUpFailure {
  enum class Kind { kNone, kModel, kDevice };
  Kind kind = Kind::kNone;
  absl::Status status;
};

// Loads, logs and warms up every model, one after the other. `on_fault` gets a model's name when its device fails
// later. `models` is complete only when the result's kind is kNone.
StartUpFailure StartModels(const std::vector<ModelSpec>& specs, const StartUpOptions& options,
                           const SharedResources& shared,
                           const std::function<void(const std::string& name, const absl::Status&)>& on_fault,
                           std::vector<std::unique_ptr<ModelService>>* models);

}  // namespace lion
