// The limits of one served model.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/tokenizer/tokenizer.h"

namespace lion {

struct ModelServiceOptions {
  // A batch is formed up to this many tokens; clamped to the engine's largest batch.
  int64_t max_batch_tokens = 8192;
  int64_t max_batch_ms = 100;  // and as many as recent batches computed in this time, 512 at least; 0: no such limit
  int64_t max_batch_inputs = 1024;
  int64_t max_wait_us = 0;
  // Tokens of one input; a larger one is refused, or a text truncated. 0: the engine's largest batch, or
  // max_queue_tokens if that is less, and no more than the tokenizer's files say. Never more than the model takes.
  int64_t max_input_tokens = 0;
  // Tokens being prepared or waiting. 0: 16 batches, or the largest input if that is more.
  int64_t max_queue_tokens = 0;
  int64_t max_inputs_per_call = 1024;
  int64_t max_image_pixels = int64_t{256} << 20;      // of an encoded image, from its header
  int64_t max_text_bytes = int64_t{16} << 20;         // of one text
  TextTruncation truncation = TextTruncation::kNone;  // where a call leaves it to the server
  // Bytes of one call's token rows, of its predictions, or of its tokens: what a reply may hold.
  int64_t max_reply_bytes = int64_t{1} << 30;
};

// With every 0 replaced by the value it stands for. `engine_tokens`: the engine's largest batch. INVALID_ARGUMENT: a
// value out of range, or one limit that contradicts another.
absl::StatusOr<ModelServiceOptions> SettleOptions(const ModelServiceOptions& options, int64_t engine_tokens);

}  // namespace lion
