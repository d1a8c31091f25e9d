// The limits of one served model.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace lion {

struct ModelServiceOptions {
  // A batch is formed up to this many tokens; clamped to the engine's largest batch.
  int64_t max_batch_tokens = 8192;
  int64_t max_batch_inputs = 1024;
  int64_t max_wait_us = 0;
  // Tokens of one input; a larger one is refused. 0: the engine's largest batch, or max_queue_tokens if that is less.
  int64_t max_input_tokens = 0;
  // Tokens being decoded or waiting. 0: 16 batches, or the largest input if that is more.
  int64_t max_queue_tokens = 0;
  int64_t max_inputs_per_call = 1024;
  int64_t max_image_pixels = int64_t{256} << 20;  // of an encoded image, from its header
  // Bytes of one call's embeddings with Pooling::kNone: what a reply may hold.
  int64_t max_reply_bytes = int64_t{1} << 30;
};

// With every 0 replaced by the value it stands for. `engine_tokens`: the engine's largest batch. INVALID_ARGUMENT: a
// value out of range, or one limit that contradicts another.
absl::StatusOr<ModelServiceOptions> SettleOptions(const ModelServiceOptions& options, int64_t engine_tokens);

}  // namespace lion
