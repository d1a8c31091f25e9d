// C++ client of a LION server: one connection, blocking and asynchronous calls, errors as absl::Status.
//
//   auto client = lion::Client::Create({.address = "localhost:8001"});
//   lion::v1::ClassifyRequest request;
//   request.add_inputs()->set_image(png_bytes);
//   absl::StatusOr<lion::v1::ClassifyResponse> response = (*client)->Classify(request);
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lion/stream.h"
#include "lion/v1/lion.pb.h"

namespace lion {

// All files are PEM and are read once, by Client::Create.
struct TlsOptions {
  std::string ca_file;  // who may have signed the server's certificate; empty: the system's authorities
  // For a server that wants callers to have one (mTLS): both or neither. The key is not encrypted.
  std::string certificate_file, key_file;
  std::string server_name;  // what the server's certificate must name; empty: the host of the address
};

struct ClientOptions {
  // "host:port", or any gRPC target ("unix:/run/lion.sock", "dns:///host:port"). HTTP proxies of the environment are
  // used, except for this machine itself.
  std::string address = "localhost:8001";
  // Deadline of a call that names none, connecting included. 0: none, so that a hung server hangs the caller.
  std::chrono::milliseconds timeout{60'000};
  // Largest response accepted: a larger one is RESOURCE_EXHAUSTED. At most 2^31 - 1, which is also the most that
  // protobuf can hold. The size of requests is the server's to limit.
  int64_t max_message_bytes = int64_t{256} << 20;
  // Clients of one process with the same address share one connection, unless they want one of their own.
  bool own_connection = false;
  std::optional<TlsOptions> tls;  // unset: plaintext
  // For a server that wants a bearer token: the token, or a file that has it in its first line that is neither empty
  // nor begins with '#'. The file is read again while calls are made, so that its token may change. Sent with every
  // call, also in plaintext: whoever sees that traffic can use it.
  std::string token, token_file;
};

struct CallOptions {
  std::chrono::milliseconds timeout{0};  // deadline of this call; 0: ClientOptions::timeout
};

// A request in its wire form: made once, sent any number of times without being serialised or copied again. Immutable;
// copies share the bytes. Request: that of any call below with an asynchronous form.
template <typename Request>
class Prepared {
 public:
  Prepared(const Request& request);  // implicit, so that the calls below take a plain request as well
  int64_t bytes() const;

 private:
  friend class Client;
  struct Wire;
  std::shared_ptr<const Wire> wire_;
};

// The answers of grpc.health.v1.
enum class HealthState : uint8_t { kUnknown, kServing, kNotServing };

// Thread-safe: any number of calls may run at once, and share one connection, which is made by the first call, kept by
// pings while calls are open, and made again after a failure. Destroy only when no blocking call is running;
// asynchronous ones are cancelled, and waited for, by the destructor.
//
// An error has the code the server (or gRPC) gave, and its message unchanged: the list is at LionService in
// lion/v1/lion.proto. No call is retried here; RetryPushback says what the server thinks of it. In a request with
// partial_results a bad input is no error of the call: look at each result.
class Client {
 public:
  // INVALID_ARGUMENT: an option out of range, or a file that cannot be used. Does not connect: a server that is
  // unreachable, or is not the one that its certificate must name, is UNAVAILABLE at the first call.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // OK guarantees one result per input, in order.
  absl::StatusOr<v1::EmbedResponse> Embed(const v1::EmbedRequest& request, const CallOptions& options = {});
  absl::StatusOr<v1::ClassifyResponse> Classify(const v1::ClassifyRequest& request, const CallOptions& options = {});
  absl::StatusOr<v1::FillMaskResponse> FillMask(const v1::FillMaskRequest& request, const CallOptions& options = {});
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request, const CallOptions& options = {});

  // For many requests: see lion/stream.h. INVALID_ARGUMENT: an option out of range. Does not connect: an unreachable
  // server is UNAVAILABLE at the first request. Destroy the stream before the client.
  absl::StatusOr<std::unique_ptr<EmbedStream>> OpenEmbedStream(const StreamOptions& options = {});
  absl::StatusOr<std::unique_ptr<ClassifyStream>> OpenClassifyStream(const StreamOptions& options = {});

  // Return at once. `done` is called exactly once, with what the blocking call would have returned, on a thread of
  // gRPC's, where other answers wait until it returns: it must not block, nor destroy the client. It may start calls,
  // but not once the destructor has begun. A request that no message can hold (2 GiB) is INVALID_ARGUMENT, and `done`
  // is then called before these return.
  void EmbedAsync(const Prepared<v1::EmbedRequest>& request, const CallOptions& options,
                  std::function<void(absl::StatusOr<v1::EmbedResponse>)> done);
  void ClassifyAsync(const Prepared<v1::ClassifyRequest>& request, const CallOptions& options,
                     std::function<void(absl::StatusOr<v1::ClassifyResponse>)> done);
  void FillMaskAsync(const Prepared<v1::FillMaskRequest>& request, const CallOptions& options,
                     std::function<void(absl::StatusOr<v1::FillMaskResponse>)> done);
  void TokenizeAsync(const Prepared<v1::TokenizeRequest>& request, const CallOptions& options,
                     std::function<void(absl::StatusOr<v1::TokenizeResponse>)> done);
  // The asynchronous calls that are running now are soon done: CANCELLED, where the answer was not there first.
  void CancelAsyncCalls();

  absl::StatusOr<v1::ListModelsResponse> ListModels(const CallOptions& options = {});
  // `model` may be empty when the server has one model.
  absl::StatusOr<v1::Model> GetModel(const std::string& model, const CallOptions& options = {});

  // Connects if need be, and returns when there is a connection (true) or `limit` has passed. The way to spend the time
  // between two tries of an UNAVAILABLE call: while no thread is in a call, gRPC gets on with connecting only every 5
  // s.
  bool WaitForConnection(std::chrono::milliseconds limit);

  // `service`: empty for the whole server, or a model's name. NOT_FOUND: the server knows no such service.
  absl::StatusOr<HealthState> CheckHealth(const std::string& service, const CallOptions& options = {});

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// How long the server asked to wait before the call that failed with `status` is tried again (trailing metadata
// grpc-retry-pushback-ms). Negative: it asked not to try again. Absent: it said nothing. In the status it is the
// payload "lion.v1/grpc-retry-pushback-ms", as the server wrote it.
std::optional<std::chrono::milliseconds> RetryPushback(const absl::Status& status);

}  // namespace lion
