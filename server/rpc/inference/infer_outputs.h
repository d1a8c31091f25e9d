// What a ModelInfer request wants back, and making it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "inference/inference.pb.h"
#include "server/model_service.h"
#include "server/rpc/inference/parameters.h"

namespace lion {

struct WantedOutput {
  std::string name;
  std::string datatype;
  int64_t classification = 0;  // so many of the highest, as "score:index:label"; 0: the tensor itself
};

// In the order of the response. INVALID_ARGUMENT: an output that the model does not have, one twice, a classification
// of what has no classes.
absl::StatusOr<std::vector<WantedOutput>> ReadOutputs(const inference::ModelInferRequest& request,
                                                      const ModelService& model);

// What `call` must compute for them. INVALID_ARGUMENT: token rows of more than one input (no tensor holds them).
absl::Status WantOutputs(const std::vector<WantedOutput>& outputs, const InferOptions& options,
                         const ModelService& model, InferenceCall* call);

// Adds them, raw, to `response`. `results` are OK. INVALID_ARGUMENT: predictions of an input that has not just one
// mask.
absl::Status FillOutputs(const std::vector<WantedOutput>& outputs, const InferOptions& options,
                         const ModelService& model, std::vector<InputReply> results,
                         inference::ModelInferResponse* response);

}  // namespace lion
