// From paths to warmed-up models.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "model_loader/model_loader.h"
#include "server/model_repository.h"
#include "server/model_service.h"

namespace lion {

// "[NAME=]PATH" each. Without a name it is the folder's, or the file's without its ending; of a file that says nothing
// ("checkpoint.pth", "model.safetensors") its folder's. INVALID_ARGUMENT: an empty part, a name twice or one
// that is not printable UTF-8.
absl::StatusOr<std::vector<ModelSpec>> ParseModelSpecs(const std::vector<std::string>& specs);

struct StartUpOptions {
  LoadOptions load;      // of every model
  EngineOptions engine;  // max_batch_tokens follows from `service` and from the memory, which the models share
  ModelServiceOptions service;
  int64_t warm_up_ms = 3000;  // of each model; at least one image is run
  // Of a model that is loaded while others serve, who wait for the device during each of its batches.
  int64_t warm_up_beside_ms = 1000;
  int64_t warm_up_batch_beside_ms = 50;
};

// One model to be loaded.
struct ModelStart {
  ModelSpec spec;
  std::string version = "1";
  size_t models = 1;  // that the memory is shared among, this one included
  // Others serve meanwhile, maybe from the same files: these are copied, the warm-up is shorter, and what takes more
  // than `available_bytes` is refused: the system would end the process, and what serves with it.
  bool beside = false;
  int64_t available_bytes = 0;
  // Looked at between the steps. Set: CANCELLED. Null: never.
  const std::atomic<bool>* cancelled = nullptr;
};

// Why a start failed, which decides the process's exit code.
struct StartUpFailure {
  enum class Kind { kNone, kModel, kDevice };
  Kind kind = Kind::kNone;
  absl::Status status;
};

// Loads, logs and warms up one model. `on_fault` gets its name when its device fails later, on the batcher's thread.
// `*model` is set only when the result's kind is kNone. May throw std::bad_alloc, and std::system_error when a thread
// cannot be started.
StartUpFailure StartModel(const ModelStart& start, const StartUpOptions& options, const SharedResources& shared,
                          const std::function<void(const std::string& name, const absl::Status&)>& on_fault,
                          std::unique_ptr<ModelService>* model);

// Does so with every model, one after the other. `models` is complete only when the result's kind is kNone.
StartUpFailure StartModels(const std::vector<ModelSpec>& specs, const StartUpOptions& options,
                           const SharedResources& shared,
                           const std::function<void(const std::string& name, const absl::Status&)>& on_fault,
                           std::vector<std::unique_ptr<ModelService>>* models);

}  // namespace lion
