#include "server/metrics/metrics_server.h"

#include <prometheus/text_serializer.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/metrics/process_metrics.h"

namespace lion {

absl::StatusOr<std::unique_ptr<HttpPages>> ServeMetrics(const std::string& host, int port, const Metrics& metrics,
                                                        std::function<bool()> ready) {
  HttpPages::Pages pages;
  pages["/metrics"] = [&metrics, process = ProcessMetrics()] {
    return HttpPage{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                    .body = metrics.Text() + prometheus::TextSerializer().Serialize(process.Collect())};
  };
  pages["/health"] = pages["/v2/health/ready"] = [ready = std::move(ready)] {
    return ready() ? HttpPage{.body = "SERVING\n"} : HttpPage{.status = 503, .body = "NOT_SERVING\n"};
  };
  pages["/v2/health/live"] = [] { return HttpPage{.body = "live\n"}; };
  absl::StatusOr<std::unique_ptr<HttpPages>> server = HttpPages::Start(host, port, std::move(pages));
  if (!server.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", host, " port ", port,
                     " for metrics (--metrics-host, --metrics-port): ", server.status().message()));
  }
  return server;
}

}  // namespace lion
