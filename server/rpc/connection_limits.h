// How long connections last, and what they may do besides calls.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>

#include "absl/status/status.h"

namespace lion {

struct ConnectionLimits {
  // A connection that is older is told to end (GOAWAY), give or take a tenth: its client makes a new one, maybe to
  // another server, with the certificates and tokens of then. 0: it may become any age.
  int64_t max_age_s = 0;
  // What calls and streams that are open then have to end, before they are cut off. 0: any time.
  int64_t max_age_grace_s = 300;
  int64_t max_idle_s = 0;  // a connection without calls ends after so long; 0: never
  // Pings of a client that has no call open, or none that moves data, closer than this are held against it: after more
  // than two the connection ends. Clients commonly ping every 10 to 30 s.
  int64_t min_ping_interval_ms = 10'000;
  // A peer that does not answer a ping of the server's for 20 s is gone, and its calls are given up.
  int64_t ping_interval_ms = 60'000;
};

// INVALID_ARGUMENT: out of range.
absl::Status CheckLimits(const ConnectionLimits& limits);

void SetLimits(const ConnectionLimits& limits, grpc::ServerBuilder* builder);

}  // namespace lion
