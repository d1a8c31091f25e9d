// RepositoryIndex, RepositoryModelLoad and RepositoryModelUnload on the control of models.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>

#include "inference/inference.pb.h"
#include "server/model_control.h"

namespace lion {

// `is_serving`: of a model. `only_ready`: the others are left out.
inference::RepositoryIndexResponse DescribeRepository(const ModelControl& control,
                                                      const std::function<bool(const std::string&)>& is_serving,
                                                      bool only_ready);

// KServe's own clients have the model's name in field 1, where Triton's have the repository's.
std::string NameOfModel(const std::string& repository_name, const std::string& model_name);

// INVALID_ARGUMENT: a configuration or files that came with the call: models are loaded from their folder alone.
absl::Status CheckLoad(const inference::RepositoryModelLoadRequest& request);

// Ends the call when the model is loaded, or unloaded, or when its caller goes away: the work is then done all the
// same.
grpc::ServerUnaryReactor* ChangeRepository(grpc::CallbackServerContext* context, ModelControl* control, bool load,
                                           const std::string& name);

}  // namespace lion
