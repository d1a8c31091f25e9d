// The gRPC server: listening, health, reflection, shutting down.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/metrics/metrics.h"
#include "server/model_control.h"
#include "server/model_registry.h"
#include "server/request_log.h"
#include "server/rpc/connection_limits.h"
#include "server/security/secrets.h"

namespace lion {

struct RpcServerOptions {
  std::string host = "0.0.0.0";      // a name or address, IPv6 with or without brackets
  int port = 8001;                   // 0: any free one; -1: none, but the socket
  std::string unix_socket;           // a path to listen on as well, without TLS; empty: none
  int unix_socket_mode = 0660;       // who may connect there: whoever may write to it
  const Secrets* secrets = nullptr;  // outlives the server; null: plaintext, and everybody is let in
  bool reflection = true;            // callers may ask for the API
  bool allow_model_control = false;  // callers may load and unload models
  ConnectionLimits connections;
  int64_t max_message_bytes = int64_t{256} << 20;  // of one request
  // Of the requests and replies of all calls inside, together: more is RESOURCE_EXHAUSTED. A call that is alone may
  // exceed it. Too small: large calls run one by one; too large: the memory runs out. 0: a quarter of what this process
  // may use.
  int64_t max_inflight_bytes = 0;
  // Of the same, those that one stream may hold; one request is always let in. Too small: a stream of large requests
  // runs them one by one; too large: a few streams whose responses nobody reads take all there is. 0: a 64th of
  // max_inflight_bytes.
  int64_t max_stream_bytes = 0;
  int64_t max_stream_requests = 256;  // read from one stream and not answered yet
  std::string version;                // of the server, for those who ask
  Metrics* metrics = nullptr;         // outlives the server; null: nothing is counted
  RequestLog* request_log = nullptr;  // likewise; null: no request is logged
};

// gRPC's own threads run handlers, which never block. All methods may be called from any thread.
class RpcServer {
 public:
  // Listens at once. Until SetServing, health is NOT_SERVING and calls are refused by the registry. UNAVAILABLE: an
  // address cannot be had. `registry` and `clock` must outlive the server.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options, ModelRegistry* registry,
                                                          const Clock* clock);
  virtual ~RpcServer() = default;  // shuts down, cancelling what is not finished

  // The health of these services. Those that were never named are unknown.
  virtual void SetServing(const std::vector<std::string>& services, bool serving) = 0;
  // NOT_SERVING for good: SetServing changes nothing any more, whichever of the two comes first.
  virtual void SetFailed(const std::vector<std::string>& services) = 0;
  // NOT_SERVING for all services, for good.
  virtual void StopServing() = 0;
  // Calls that ask about models there could be, or load and unload them, act on it from now on; before, they are
  // UNAVAILABLE. It outlives Shutdown.
  virtual void SetModelControl(ModelControl* control) = 0;
  // Lets every open stream answer what it has read, then ends it. Those that come later are ended at once.
  virtual void DrainStreams() = 0;
  // Refuses new calls, gives those inside `grace_ms` to send their replies, cancels the rest.
  virtual void Shutdown(int64_t grace_ms) = 0;

  virtual int port() const = 0;  // 0: only the socket
  // Where it listens, for the log: "0.0.0.0 port 8001 with TLS and unix:/run/lion.sock".
  virtual std::string address() const = 0;
};

// What health checks may ask for besides the models' names: the server as a whole, and its services.
inline const std::vector<std::string> kServiceNames = {"",
                                                       "lion.v1.LionService",
                                                       "inference.GRPCInferenceService",
                                                       "tei.v1.Info",
                                                       "tei.v1.Embed",
                                                       "tei.v1.Predict",
                                                       "tei.v1.Rerank",
                                                       "tei.v1.Tokenize"};

}  // namespace lion
