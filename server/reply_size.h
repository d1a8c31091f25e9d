// How large the reply of a call may become: what is charged before anything is computed.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "model_loader/model_config.h"
#include "server/inference_call.h"
#include "server/input_preparer.h"

namespace lion {

// Of the inputs that were let in.
struct ReplySize {
  int64_t inputs = 0;
  int64_t tokens = 0;
  int64_t masks = 0;
  int64_t work = 0;

  void Add(const InputCost& cost) {
    ++inputs;
    tokens += cost.most_tokens;
    masks += cost.most_masks;
    work += cost.work;
  }
};

// Bytes, in memory and on the wire; an upper bound. INVALID_ARGUMENT: what grows with the length of the inputs is more
// than `max_reply_bytes`.
absl::StatusOr<int64_t> ReplyBytes(const InferenceCall& call, const ReplySize& size, const ModelConfig& config,
                                   int64_t max_reply_bytes);

}  // namespace lion
