// What the parameters of a ModelInfer request ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "inference/inference.pb.h"
#include "server/inference_call.h"

namespace lion {

struct InferOptions {
  std::optional<Pooling> pooling;            // unset: the model's own
  std::optional<bool> normalize;             // unset: the model's own
  std::optional<TextTruncation> truncation;  // unset: the server's
  int64_t dimensions = 0;                    // 0: all
  int64_t predictions = 5;                   // for a mask
  int priority = 0;                          // ours: 0..kMaxPriority
  int64_t timeout_ns = 0;                    // from arrival; 0: none
};

using ParameterMap = google::protobuf::Map<std::string, inference::InferParameter>;

// Parameters of other names are ignored. INVALID_ARGUMENT: one of the wrong type or out of range.
absl::StatusOr<InferOptions> ReadParameters(const ParameterMap& parameters);

// An integer that is sent in either of its two types. INVALID_ARGUMENT: something else, or not in 0..`most`. No value:
// there is none of that name.
absl::StatusOr<std::optional<int64_t>> ReadInteger(const ParameterMap& parameters, const std::string& name,
                                                   int64_t most);

}  // namespace lion
