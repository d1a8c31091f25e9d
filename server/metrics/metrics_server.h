// The pages for those who watch the server: Prometheus, and probes that do not speak gRPC.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/metrics/http_pages.h"
#include "server/metrics/metrics.h"

namespace lion {

// Served until it is destroyed:
//   /metrics                    the series of `metrics` and those of the process, in Prometheus's text format
//   /health, /v2/health/ready   200 when `ready` says so, otherwise 503
//   /v2/health/live             200
// `metrics` must outlive it; `ready` is called on its thread. Errors as of HttpPages::Start, with the flag's name.
absl::StatusOr<std::unique_ptr<HttpPages>> ServeMetrics(const std::string& host, int port, const Metrics& metrics,
                                                        std::function<bool()> ready);

}  // namespace lion
