// The HTTP endpoint for those who watch the server: Prometheus, and probes that do not speak gRPC.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/metrics/metrics.h"

namespace lion {

// Answers on threads of its own until it is destroyed:
//   GET /metrics                    the series of `metrics` and those of the process, in Prometheus's text format
//   GET /health, /v2/health/ready   200 when `ready` says so, otherwise 503
//   GET /v2/health/live             200
// `metrics` must outlive it; `ready` may be called from any thread.
class MetricsServer {
 public:
  // Port 0: any free one. UNAVAILABLE: the port cannot be had, with the address.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& host, int port, const Metrics& metrics,
                                                              std::function<bool()> ready);
  ~MetricsServer();
  int port() const;

 private:
  class Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lion
