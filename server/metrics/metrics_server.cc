#include "server/metrics/metrics_server.h"

#include <httplib.h>
#include <prometheus/text_serializer.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/metrics/process_metrics.h"

namespace lion {
namespace {

constexpr int kThreads = 2;
constexpr int kTimeoutS = 5;  // of reading a request and of writing its answer
constexpr char kText[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

class MetricsServer::Impl {
 public:
  Impl(const Metrics& metrics, std::function<bool()> ready) : metrics_(metrics), ready_(std::move(ready)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_read_timeout(kTimeoutS);
    server_.set_write_timeout(kTimeoutS);
    server_.set_keep_alive_timeout(kTimeoutS);
    server_.set_payload_max_length(0);
    // The library's default would also let a second process listen on the same port.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(metrics_.Text() + prometheus::TextSerializer().Serialize(process_.Collect()), kText);
    });
    const auto answer_ready = [this](const httplib::Request&, httplib::Response& response) {
      const bool is_ready = ready_();
      response.status = is_ready ? 200 : 503;
      response.set_content(is_ready ? "SERVING\n" : "NOT_SERVING\n", "text/plain");
    };
    server_.Get("/health", answer_ready);
    server_.Get("/v2/health/ready", answer_ready);
    server_.Get("/v2/health/live", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("live\n", "text/plain");
    });
  }

  ~Impl() {
    if (!thread_.joinable()) return;
    // A server that is not running yet does not hear its stop.
    while (!server_.is_running()) std::this_thread::yield();
    server_.stop();
    thread_.join();
  }

  bool Listen(const std::string& host, int port) {
    port_ = port;
    if (port == 0) {
      port_ = server_.bind_to_any_port(host);
    } else if (!server_.bind_to_port(host, port)) {
      port_ = -1;
    }
    if (port_ < 0) return false;
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    return true;
  }

  int port() const { return port_; }

 private:
  const Metrics& metrics_;
  const std::function<bool()> ready_;
  const ProcessMetrics process_;
  httplib::Server server_;
  int port_ = -1;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& host, int port,
                                                                    const Metrics& metrics,
                                                                    std::function<bool()> ready) {
  auto impl = std::make_unique<Impl>(metrics, std::move(ready));
  if (!impl->Listen(host, port)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", host, " port ", port, " for metrics (--metrics-port): is it in use?"));
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;
int MetricsServer::port() const { return impl_->port(); }

}  // namespace lion
