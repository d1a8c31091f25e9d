#include "lion/client.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/library/call_status.h"
#include "client/library/client_impl.h"
#include "client/library/credentials.h"

namespace lion {
namespace {

using std::chrono::milliseconds;

grpc::ChannelArguments ChannelArguments(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetUserAgentPrefix("lion-client");
  // A peer that vanished is noticed within 40 s of an open call; an idle connection is left alone. The server accepts a
  // ping every 10 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A restarted server is found again quickly; gRPC's own values are 1 s, 120 s and 20 s.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // In truth the time allowed for connecting. It must exceed the 5 s after which gRPC looks at a connection attempt
  // while no call is waiting.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 12'000);
  if (IsThisMachine(options.address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.tls.has_value() && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

}  // namespace

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() {
  impl_->async_calls.CancelAll();
  impl_->async_calls.WaitUntilNone();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  if (options.address.empty()) return absl::InvalidArgumentError("address is empty; expected host:port");
  if (options.timeout.count() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout is ", options.timeout.count(), " ms; expected 0 (none) or more"));
  }
  if (options.max_message_bytes < 1 || options.max_message_bytes > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_message_bytes is ", options.max_message_bytes, "; expected 1 to 2^31 - 1"));
  }
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials = MakeCredentials(options);
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<Interceptors> interceptors = MakeTokenInterceptors(options);
  if (!interceptors.ok()) return interceptors.status();
  auto impl = std::make_unique<Impl>();
  impl->timeout = options.timeout;
  impl->channel = grpc::experimental::CreateCustomChannelWithInterceptors(
      options.address, *credentials, ChannelArguments(options), *std::move(interceptors));
  impl->stub = v1::LionService::NewStub(impl->channel);
  impl->health = grpc::health::v1::Health::NewStub(impl->channel);
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

absl::StatusOr<v1::EmbedResponse> Client::Embed(const v1::EmbedRequest& request, const CallOptions& options) {
  return impl_->CallForEachInput(&v1::LionService::Stub::Embed, request, options);
}

absl::StatusOr<v1::ClassifyResponse> Client::Classify(const v1::ClassifyRequest& request, const CallOptions& options) {
  return impl_->CallForEachInput(&v1::LionService::Stub::Classify, request, options);
}

absl::StatusOr<v1::FillMaskResponse> Client::FillMask(const v1::FillMaskRequest& request, const CallOptions& options) {
  return impl_->CallForEachInput(&v1::LionService::Stub::FillMask, request, options);
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request, const CallOptions& options) {
  return impl_->CallForEachInput(&v1::LionService::Stub::Tokenize, request, options);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(const CallOptions& options) {
  return impl_->Call(*impl_->stub, &v1::LionService::Stub::ListModels, v1::ListModelsRequest(), options);
}

absl::StatusOr<v1::Model> Client::GetModel(const std::string& model, const CallOptions& options) {
  v1::GetModelRequest request;
  request.set_model(model);
  return impl_->Call(*impl_->stub, &v1::LionService::Stub::GetModel, request, options);
}

absl::StatusOr<std::unique_ptr<EmbedStream>> Client::OpenEmbedStream(const StreamOptions& options) {
  return EmbedStream::Open(impl_->channel, options);
}

absl::StatusOr<std::unique_ptr<ClassifyStream>> Client::OpenClassifyStream(const StreamOptions& options) {
  return ClassifyStream::Open(impl_->channel, options);
}

bool Client::WaitForConnection(milliseconds limit) {
  return impl_->channel->WaitForConnected(std::chrono::system_clock::now() + limit);
}

absl::StatusOr<HealthState> Client::CheckHealth(const std::string& service, const CallOptions& options) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const auto response = impl_->Call(*impl_->health, &grpc::health::v1::Health::Stub::Check, request, options);
  if (!response.ok()) return response.status();
  switch (response->status()) {
    case grpc::health::v1::HealthCheckResponse::SERVING:
      return HealthState::kServing;
    case grpc::health::v1::HealthCheckResponse::NOT_SERVING:
      return HealthState::kNotServing;
    default:
      return HealthState::kUnknown;
  }
}

}  // namespace lion
