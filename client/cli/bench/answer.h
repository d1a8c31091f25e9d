// What comes back for one call.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace lion::bench {

// As the server measured it: lion.v1.Timing.
struct ServerTiming {
  int64_t total_ns = 0;
  int64_t queue_ns = 0;
  int64_t preprocess_ns = 0;
  int64_t compute_ns = 0;
  int64_t batch_inputs = 0;
};

struct Answer {
  absl::Status status;  // not OK: the rest is empty
  int64_t images = 0;
  int64_t tokens = 0;
  std::optional<ServerTiming> timing;
};

}  // namespace lion::bench
