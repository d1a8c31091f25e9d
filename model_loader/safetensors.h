// Reads the safetensors format. Private to model_loader.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "model_loader/bytes.h"
#include "model_loader/tensor.h"

namespace lion {

// The tensors of one safetensors file, as views into `bytes`. Everything is validated before a view is made: header
// length (at most 100,000,000, and inside the file, with a checked addition), UTF-8 JSON object without duplicate keys,
// `__metadata__` a map of strings, known types, begin <= end, shape times size equal to the region's bytes with
// overflow checks, regions contiguous from 0 without hole or overlap, the last end equal to the data's length.
// INVALID_ARGUMENT naming the tensor and the rule; no size is allocated that a file claims.
absl::StatusOr<std::map<std::string, TensorView>> ReadSafetensors(Bytes bytes);

// Whether a JSON object begins where the header does.
bool IsSafetensors(Bytes bytes);

}  // namespace lion
