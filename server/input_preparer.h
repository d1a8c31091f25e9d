// Makes the engine's input of what a call holds: one implementation for each modality.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/image/image.h"
#include "server/inference_call.h"
#include "server/prepare_pool.h"
#include "server/tokenizer/tokenizer.h"

namespace lion {

// What an input takes, as far as it is known before it is prepared.
struct InputCost {
  int64_t least_tokens = 0;  // in the queue
  int64_t most_tokens = 0;   // an upper bound; the same as least_tokens where the number is known
  int64_t most_masks = 0;    // places for which tokens are predicted; an upper bound
  bool ready = false;        // it need not be prepared
  int64_t work = 0;          // of preparing it, in the pool's unit
  int64_t memory_bytes = 0;  // while it is prepared
};

// The engine's input with what it points into. Moved, never copied: `image` and the spans of a request are into it.
struct PreparedInput {
  PreparedInput() = default;
  PreparedInput(PreparedInput&&) = default;
  PreparedInput& operator=(PreparedInput&&) = default;

  int64_t tokens = 0;
  ImageInput image;
  RgbImage pixels;              // what `image` points into, unless that is the caller's
  Encoding encoding;            // of a text
  std::vector<int32_t> masked;  // places in the encoding whose token is to be predicted

  TextInput text() const { return {.ids = encoding.ids, .type_ids = encoding.type_ids}; }
};

// All methods may be called from any thread. What it was made of must outlive it.
class InputPreparer {
 public:
  virtual ~InputPreparer() = default;

  // What is quickly found out, on one of gRPC's threads. `prepared` is set if the input is ready. INVALID_ARGUMENT,
  // naming what was found, the limit and its flag; FAILED_PRECONDITION: the model lacks what the input needs.
  virtual absl::StatusOr<InputCost> Check(const InferenceCall& call, const InferenceInput& input,
                                          PreparedInput* prepared) const = 0;

  // The work itself, on one of pool()'s threads, of an input that has passed Check. The same errors, and
  // RESOURCE_EXHAUSTED with kRetryPushbackPayload: no memory just now. May throw std::bad_alloc, which means the same.
  virtual absl::StatusOr<PreparedInput> Prepare(const InferenceCall& call, const InferenceInput& input) const = 0;
  virtual PreparePool* pool() const = 0;

  // A blank input of usual size, for warming up.
  virtual absl::StatusOr<PreparedInput> Blank() const = 0;
};

}  // namespace lion
