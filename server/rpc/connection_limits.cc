#include "server/rpc/connection_limits.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr int64_t kMaxSeconds = std::numeric_limits<int>::max() / 1000;
constexpr int kPingTimeoutMs = 20'000;
// A connection that does not say what it wants, or does not finish its TLS handshake, holds a descriptor. gRPC's own
// value is 120 s.
constexpr int kHandshakeTimeoutMs = 20'000;

}  // namespace

absl::Status CheckLimits(const ConnectionLimits& limits) {
  for (const auto& [name, value] : {std::pair("max connection age", limits.max_age_s),
                                    std::pair("max connection age grace", limits.max_age_grace_s),
                                    std::pair("max connection idle", limits.max_idle_s)}) {
    if (value < 0 || value > kMaxSeconds) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": got ", value, " s, want 0 to ", kMaxSeconds));
    }
  }
  return absl::OkStatus();
}

void SetLimits(const ConnectionLimits& limits, grpc::ServerBuilder* builder) {
  const auto set = [builder](const char* argument, int64_t value) {
    builder->AddChannelArgument(argument, static_cast<int>(value));
  };
  if (limits.max_age_s > 0) {
    set(GRPC_ARG_MAX_CONNECTION_AGE_MS, 1000 * limits.max_age_s);
    if (limits.max_age_grace_s > 0) set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 1000 * limits.max_age_grace_s);
  }
  if (limits.max_idle_s > 0) set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 1000 * limits.max_idle_s);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, limits.min_ping_interval_ms);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, limits.ping_interval_ms);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
}

}  // namespace lion
