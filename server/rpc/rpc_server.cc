#include "server/rpc/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "engine/resources.h"
#include "server/byte_account.h"
#include "server/mutex.h"
#include "server/rpc/lion_service.h"

namespace lion {
namespace {

constexpr int kMinPingIntervalMs = 10'000;
// Of gRPC's own buffers, besides messages: connections, headers, what is read ahead.
constexpr int64_t kTransportBytes = int64_t{64} << 20;

int64_t InflightLimit(const RpcServerOptions& options) {
  return options.max_inflight_bytes > 0 ? options.max_inflight_bytes : MemoryLimitBytes() / 4;
}

// What gRPC may hold of messages that are not complete, so that no handler has counted them yet. Two of the largest
// always fit: past its quota gRPC ends calls with RESOURCE_EXHAUSTED.
int64_t ReadQuota(const RpcServerOptions& options) {
  return std::max(InflightLimit(options), 2 * options.max_message_bytes) + kTransportBytes;
}

StreamLimits LimitsOfStreams(const RpcServerOptions& options) {
  constexpr int64_t kFullStreams = 64;  // that take all there is
  return {.window = static_cast<size_t>(options.max_stream_requests),
          .bytes = options.max_stream_bytes > 0 ? options.max_stream_bytes : InflightLimit(options) / kFullStreams};
}

std::string Address(const RpcServerOptions& options) {
  const bool bare_ipv6 = options.host.find(':') != std::string::npos && options.host.front() != '[';
  return bare_ipv6 ? absl::StrCat("[", options.host, "]:", options.port)
                   : absl::StrCat(options.host, ":", options.port);
}

class RpcServerImpl final : public RpcServer {
 public:
  RpcServerImpl(const RpcServerOptions& options, ModelRegistry* registry, const Clock* clock)
      : memory_(InflightLimit(options)),
        service_({registry, clock, &memory_, options.metrics}, LimitsOfStreams(options)) {}

  ~RpcServerImpl() override {
    if (server_ != nullptr) Shutdown(0);
  }

  absl::Status Listen(const RpcServerOptions& options) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    const std::string address = Address(options);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(
        static_cast<int>(std::min<int64_t>(options.max_message_bytes, std::numeric_limits<int>::max())));
    builder.SetMaxSendMessageSize(-1);
    // gRPC inflates a message before it looks at its size. Without these algorithms a compressed request is refused.
    for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
      builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
    }
    grpc::ResourceQuota quota("lion");
    quota.Resize(static_cast<size_t>(ReadQuota(options)));
    builder.SetResourceQuota(quota);
    // A busy port is an error, not a share of its connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", address, ": the port is in use, or the address is not this machine's"));
    }
    SetServing(kServiceNames, false);
    return absl::OkStatus();
  }

  void SetServing(const std::vector<std::string>& services, bool serving) override {
    MutexLock lock(mutex_);
    for (const std::string& service : services) {
      server_->GetHealthCheckService()->SetServingStatus(service, serving && failed_.count(service) == 0);
    }
  }

  void SetFailed(const std::vector<std::string>& services) override {
    {
      MutexLock lock(mutex_);
      failed_.insert(services.begin(), services.end());
    }
    SetServing(services, false);
  }

  void StopServing() override { server_->GetHealthCheckService()->Shutdown(); }

  void DrainStreams() override { service_.DrainStreams(); }

  void Shutdown(int64_t grace_ms) override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
  }

  int port() const override { return port_; }

 private:
  ByteAccount memory_;
  LionServiceImpl service_;
  int port_ = 0;
  Mutex mutex_;
  std::set<std::string> failed_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options, ModelRegistry* registry,
                                                            const Clock* clock) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("port: got ", options.port, ", want 0 to 65535"));
  }
  if (options.host.empty()) return absl::InvalidArgumentError("host is empty");
  if (options.max_message_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max message bytes: got ", options.max_message_bytes, ", want >= 1"));
  }
  if (options.max_inflight_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max inflight bytes: got ", options.max_inflight_bytes, ", want >= 0"));
  }
  if (options.max_stream_bytes < 0 || options.max_stream_requests < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max stream bytes: got ", options.max_stream_bytes,
                                                   ", want >= 0; max stream requests: got ",
                                                   options.max_stream_requests, ", want >= 1"));
  }
  auto server = std::make_unique<RpcServerImpl>(options, registry, clock);
  if (absl::Status status = server->Listen(options); !status.ok()) return status;
  return server;
}

}  // namespace lion
