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
#include "server/rpc/inference/inference_service.h"
#include "server/rpc/lion_service.h"
#include "server/rpc/port_credentials.h"
#include "server/rpc/tei/tei_services.h"
#include "server/rpc/unix_socket.h"

namespace lion {
namespace {

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

// Reflection is a plugin of every server in the process, and the only one.
class WithoutPlugins final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override { plugins->clear(); }
};

class RpcServerImpl final : public RpcServer {
 public:
  RpcServerImpl(const RpcServerOptions& options, ModelRegistry* registry, const Clock* clock)
      : options_(options),
        memory_(InflightLimit(options)),
        lion_({registry, clock, &memory_, options.metrics, options.request_log}, LimitsOfStreams(options)),
        inference_({registry, clock, &memory_, options.metrics, options.request_log}, LimitsOfStreams(options),
                   {.version = options.version,
                    .allow_model_control = options.allow_model_control,
                    .is_serving = [this](const std::string& name) { return IsServing(name); }}),
        tei_info_(TeiOf(registry, clock)),
        tei_embed_(TeiOf(registry, clock)),
        tei_predict_(TeiOf(registry, clock)),
        tei_rerank_(TeiOf(registry, clock)),
        tei_tokenize_(TeiOf(registry, clock)),
        port_credentials_(MakeCredentials(/*with_tls=*/true)),
        socket_credentials_(MakeCredentials(/*with_tls=*/false)) {}

  ~RpcServerImpl() override {
    if (server_ != nullptr) Shutdown(0);
  }

  absl::Status Listen() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    if (!options_.reflection) builder.SetOption(std::make_unique<WithoutPlugins>());
    if (options_.port >= 0) builder.AddListeningPort(Address(options_), port_credentials_, &port_);
    if (!options_.unix_socket.empty()) {
      if (absl::Status status = MakeRoomForSocket(options_.unix_socket); !status.ok()) return status;
      builder.AddListeningPort("unix:" + options_.unix_socket, socket_credentials_, &socket_);
    }
    builder.SetMaxReceiveMessageSize(
        static_cast<int>(std::min<int64_t>(options_.max_message_bytes, std::numeric_limits<int>::max())));
    builder.SetMaxSendMessageSize(-1);
    // gRPC inflates a message before it looks at its size. Without these algorithms a compressed request is refused.
    for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
      builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
    }
    grpc::ResourceQuota quota("lion");
    quota.Resize(static_cast<size_t>(ReadQuota(options_)));
    builder.SetResourceQuota(quota);
    // A busy port is an error, not a share of its connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    SetLimits(options_.connections, &builder);
    builder.RegisterService(&lion_);
    builder.RegisterService(&inference_);
    for (grpc::Service* const service :
         std::initializer_list<grpc::Service*>{&tei_info_, &tei_embed_, &tei_predict_, &tei_rerank_, &tei_tokenize_}) {
      builder.RegisterService(service);
    }
    {
      const SocketMode mode(static_cast<mode_t>(options_.unix_socket_mode));
      server_ = builder.BuildAndStart();
    }
    if (options_.port >= 0 && port_ <= 0) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", Address(options_),
                                                 ": the port is in use, or the address is not this machine's"));
    }
    if (server_ == nullptr || (!options_.unix_socket.empty() && socket_ <= 0)) {
      return absl::UnavailableError(absl::StrCat("cannot listen on unix:", options_.unix_socket,
                                                 ": its folder is missing or may not be written to"));
    }
    SetServing(kServiceNames, false);
    return absl::OkStatus();
  }

  void SetServing(const std::vector<std::string>& services, bool serving) override {
    MutexLock lock(mutex_);
    for (const std::string& service : services) {
      const bool serves = serving && !stopped_ && failed_.count(service) == 0;
      if (serves) serving_.insert(service);
      if (!serves) serving_.erase(service);
      server_->GetHealthCheckService()->SetServingStatus(service, serves);
    }
  }

  void SetFailed(const std::vector<std::string>& services) override {
    {
      MutexLock lock(mutex_);
      failed_.insert(services.begin(), services.end());
    }
    SetServing(services, false);
  }

  void StopServing() override {
    MutexLock lock(mutex_);
    stopped_ = true;
    serving_.clear();
    server_->GetHealthCheckService()->Shutdown();
  }

  void SetModelControl(ModelControl* control) override { inference_.SetModelControl(control); }

  void DrainStreams() override {
    lion_.DrainStreams();
    inference_.DrainStreams();
    tei_streams_.Drain();
  }

  void Shutdown(int64_t grace_ms) override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
  }

  int port() const override { return port_; }

  std::string address() const override {
    const bool tls = options_.secrets != nullptr && options_.secrets->tls() != nullptr;
    std::string text;
    if (options_.port >= 0) text = absl::StrCat(options_.host, " port ", port_, tls ? " with TLS" : "");
    if (options_.unix_socket.empty()) return text;
    return absl::StrCat(text, text.empty() ? "unix:" : " and unix:", options_.unix_socket);
  }

 private:
  // What health says.
  bool IsServing(const std::string& service) {
    MutexLock lock(mutex_);
    return serving_.count(service) > 0;
  }

  TeiContext TeiOf(ModelRegistry* registry, const Clock* clock) {
    return {.exchange = {registry, clock, &memory_, options_.metrics, options_.request_log},
            .stream_limits = LimitsOfStreams(options_),
            .streams = &tei_streams_,
            .version = options_.version};
  }

  std::shared_ptr<PortCredentials> MakeCredentials(bool with_tls) const {
    return std::make_shared<PortCredentials>(options_.secrets, with_tls, [metrics = options_.metrics] {
      if (metrics != nullptr) metrics->CountUnauthenticated();
    });
  }

  const RpcServerOptions options_;
  ByteAccount memory_;
  LionServiceImpl lion_;
  InferenceServiceImpl inference_;
  OpenStreams tei_streams_;
  TeiInfoService tei_info_;
  TeiEmbedService tei_embed_;
  TeiPredictService tei_predict_;
  TeiRerankService tei_rerank_;
  TeiTokenizeService tei_tokenize_;
  const std::shared_ptr<PortCredentials> port_credentials_, socket_credentials_;
  int port_ = 0;    // as gRPC says: not 0 where it listens
  int socket_ = 0;  // likewise
  Mutex mutex_;
  std::set<std::string> serving_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> failed_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options, ModelRegistry* registry,
                                                            const Clock* clock) {
  if (options.port < -1 || options.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("port: got ", options.port, ", want -1 to 65535"));
  }
  if (options.port == -1 && options.unix_socket.empty()) {
    return absl::InvalidArgumentError("there is nowhere to listen: --grpc-port -1 wants --unix-socket");
  }
  if (absl::Status status = CheckLimits(options.connections); !status.ok()) return status;
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
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace lion
