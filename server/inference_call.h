// One inference call, from what was asked to its reply: plain data, and how the parts of a reply come together.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "server/byte_account.h"
#include "server/clock.h"
#include "server/image/preprocess.h"
#include "server/mutex.h"
#include "server/tokenizer/tokenizer.h"

namespace lion {

// UTF-8.
struct TextOrPair {
  std::string_view first;
  std::optional<std::string_view> second;
};

// Special tokens included.
struct GivenTokens {
  std::span<const int64_t> ids;       // [L]
  std::span<const int64_t> type_ids;  // [L], or empty: all 0
};

// One input of a call: the first of these that is set counts. The bytes, pixels, texts and ids are the caller's, and
// must stay alive until the call is done.
struct InferenceInput {
  absl::Status status;               // not OK: the input was found bad already
  std::string_view encoded;          // an image file
  std::optional<ImageInput> pixels;  // ready for patching
  std::optional<TextOrPair> text;
  std::optional<GivenTokens> tokens;
};

// How texts become tokens.
struct TextOptions {
  TextTruncation truncation = TextTruncation::kNone;
  bool special_tokens = true;
};

struct InferenceCall {
  std::vector<InferenceInput> inputs;
  ImagePreprocessOptions image;  // of encoded inputs; max_pixels is the service's
  TextOptions text;              // of texts
  bool embedding = false;        // what is wanted of every input
  Pooling pooling = Pooling::kMean;
  bool logits = false;
  int64_t class_scores = 0;      // of each input in the reply
  int64_t predictions = 0;       // tokens for each mask of an input; then every input needs one
  bool encoding = false;         // the tokens themselves; nothing is computed then, and nothing else can be wanted
  uint64_t caller = 0;           // whose share of the device the call takes (FairOrder)
  int priority = 0;              // 0..kMaxPriority
  bool partial_results = false;  // a bad input fails itself alone
  int64_t arrival_ns = 0;        // of the service's clock
  int64_t deadline_ns = kNever;
  // Holds the request's bytes; Run adds those of the reply. Must stay alive until the call is done; null: not counted.
  ByteAccount::Charge* memory = nullptr;
  // Let go when nothing of the call is left in the service, which may be after its `done`: the service itself, if it
  // must not end before. Null: the service outlives its calls.
  std::shared_ptr<const void> keep_alive;
};

struct InputReply {
  absl::Status status;
  int64_t tokens = 0;
  bool truncated = false;
  Result result;                // valid when the status is OK, as all below
  std::vector<int32_t> masked;  // places of the masks that result.predictions are for
  Encoding encoding;            // when it was asked for
};

// Where the time went, of the input that finished last or, when the call failed, of the one that failed it, which may
// lack later stages: three intervals that do not overlap.
struct CallTiming {
  int64_t preprocess_ns = 0;    // decoding and resizing, or tokenizing
  int64_t queue_ns = 0;         // waiting for a thread that prepares and for a batch
  int64_t prepare_wait_ns = 0;  // of that, for the thread
  int64_t compute_ns = 0;       // the forward pass of the batch
  int64_t batch_inputs = 0;     // inputs in the batch, from all callers
  int64_t batch_tokens = 0;
};

struct InferenceReply {
  // Not OK: the call failed, and `results` says nothing. Of a bad input (without partial_results) the message begins
  // with "input N: ".
  absl::Status status;
  std::vector<InputReply> results;  // in the order of the inputs
  CallTiming timing;
};

// "input N: " before the message; code and payloads kept.
absl::Status OfInput(size_t index, const absl::Status& status);

// What the inputs of one call share while each goes its own way. Each result is written once, by whoever has that
// input; the last one calls `done`.
struct CallInProgress {
  InferenceCall request;
  std::shared_ptr<std::atomic<bool>> abandoned;
  std::function<void(InferenceReply)> done;
  std::vector<InputReply> results;
  std::atomic<int64_t> remaining = 0;  // inputs that are not finished

  // From any thread.
  void Finish(size_t index, absl::Status status, Result result, const CallTiming& timing);

  // Whether it was a failed input, and not the caller, that made the rest pointless. Known once `abandoned` is set.
  bool abandoned_by_service() const {
    MutexLock lock(mutex_);
    return !failure_.ok() && !absl::IsCancelled(failure_);
  }

 private:
  void Fail(size_t index, const absl::Status& status, const CallTiming& timing);

  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  size_t failed_index_ ABSL_GUARDED_BY(mutex_) = 0;
  CallTiming timing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lion
