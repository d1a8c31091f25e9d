#include "server/model_actions.h"

#include <utility>

#include "engine/resources.h"

namespace lion {

ModelControlActions MakeModelActions(const StartUpOptions* options, const SharedResources* shared,
                                     Readiness* readiness) {
  ModelControlActions actions;
  actions.load = [options, shared,
                  readiness](const ModelControlActions::Load& load) -> absl::StatusOr<std::unique_ptr<ModelService>> {
    const ModelStart start = {.spec = load.spec,
                              .version = load.version,
                              .models = load.models,
                              .beside = true,
                              .available_bytes = MemoryAvailableBytes(),
                              .cancelled = load.cancelled};
    const auto on_fault = [readiness](const std::string& name, const absl::Status& status) {
      readiness->Fail(name, status);
    };
    std::unique_ptr<ModelService> model;
    const StartUpFailure failure = StartModel(start, *options, *shared, on_fault, &model);
    if (failure.kind != StartUpFailure::Kind::kNone) return failure.status;
    return model;
  };
  actions.put = [readiness](std::unique_ptr<ModelService> model) { return readiness->Put(std::move(model)); };
  actions.remove = [readiness](const std::string& name) { readiness->Remove(name); };
  return actions;
}

}  // namespace lion
