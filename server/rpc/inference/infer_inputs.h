// The inputs of a ModelInfer request as those of a call.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/model_service.h"
#include "server/rpc/inference/tensors.h"

namespace lion {

// Adds one input to `call` for each element of the batch, which points into the request, or into `narrowed` (see
// ReadPixels). INVALID_ARGUMENT, saying what was found and what was expected: a tensor that the model does not take, or
// of another datatype or shape; batches that differ, or more than the model takes in a call; text and token ids at
// once, or neither; padding inside a sequence. A bad element carries its own status.
absl::Status ReadInputs(const inference::ModelInferRequest& request, const ModelService& model,
                        std::vector<uint8_t>* narrowed, InferenceCall* call);

}  // namespace lion
