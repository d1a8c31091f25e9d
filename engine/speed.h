// How fast an engine is, next to the limit of its machine.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace lion {

struct SpeedOptions {
  int repeats = 9;
  double budget_s = 10;  // no further repeat begins after so many seconds
};

// Medians of one run.
struct Speed {
  int64_t tokens = 0;    // of the batch
  double forward_s = 0;  // of Engine::Forward
  double limit_s = 0;    // of its matrix products alone (ProductLimit), with the tiles of rows that suit them best
  int repeats = 0;
};

// Measures the forward pass of one batch and its matrix products by turns, so that both meet the same machine, after a
// pass of each that does not count. Takes the memory of the weights once more for each size of tiles. The requests must
// fit the engine. An error is the engine's, that of a request, or INTERNAL: "the forward pass failed", "the matrix
// products alone failed", and why.
absl::StatusOr<Speed> MeasureSpeed(Engine& engine, std::span<const Request> requests, const SpeedOptions& options);

}  // namespace lion
