// Many inputs through a few calls at a time: grouped, tried again where that helps, delivered in order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "client/cli/inputs.h"
#include "client/cli/retry.h"
#include "client/cli/transport.h"

namespace lion {

struct BulkOptions {
  // A call takes inputs until either is reached, and at least one input; it does not wait for lines that are yet to be
  // written. Large enough that the cost of a call does not matter for small images; larger makes batches no better,
  // since the server forms its own.
  int max_inputs = 16;
  int64_t max_bytes = int64_t{4} << 20;
  // Calls in flight, each from a thread of its own that also reads its files. Memory: max_calls * max_bytes (or the
  // largest images), plus 2 * max_calls groups of finished results that wait for an earlier one.
  int max_calls = 8;
  int64_t max_file_bytes = 2'000'000'000;  // of an image: what a protobuf message can hold
  RetryPolicy retry;
};

struct BulkSummary {
  size_t inputs = 0;      // all that were delivered
  size_t failed = 0;      // inputs with an error, those not sent included
  size_t not_sent = 0;    // inputs left out after `stopped`
  bool not_read = false;  // text files were not read to their end after `stopped`
  absl::Status stopped;   // the error that would have met every further call too; OK: all inputs were tried
  absl::Status delivery;  // the first error of `deliver`, after which nothing was delivered
};

// Receives every input's result, in the order of the source, on the thread that called RunBulk.
using DeliverResult = std::function<absl::Status(const BulkInput& input, const InputResult& result)>;
using SleepFunction = std::function<void(std::chrono::milliseconds)>;

// Sends all of `source` and returns when the last result has been delivered. An image that cannot be read, and an input
// that the server refuses, fail alone: a call refused as a whole as INVALID_ARGUMENT, or as too large, is sent again in
// halves. `sleep` is called from any thread. A run that stops still waits for the line that a pipe is being read for.
BulkSummary RunBulk(InputSource& source, const BulkOptions& options, Transport& transport, const SleepFunction& sleep,
                    const DeliverResult& deliver);

}  // namespace lion
