// The life of the server process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/request_log.h"
#include "server/rpc/rpc_server.h"
#include "server/start_up.h"
#include "server/stop_signals.h"

namespace lion {

struct ServerConfig {
  std::vector<std::string> models;  // [NAME=]PATH
  std::string model_repository;     // a folder of models; empty: none
  int64_t model_poll_s = 0;         // how often the models' files are looked at; 0: when SIGHUP comes
  StartUpOptions start_up;
  RpcServerOptions rpc;
  SecretPaths secrets;
  int decode_threads = 0;  // 0: as many as processors
  // Of all decodes going on at once; an image that needs more is refused. 0: an eighth of the memory this process may
  // use, at least 64 MiB.
  int64_t max_decode_bytes = 0;
  // Pixels of work that may wait for the decoding threads. 0: 4 * max_image_pixels.
  int64_t max_queue_pixels = 0;
  int tokenize_threads = 0;  // 0: one, or two where there are as many processors
  std::string metrics_host;  // name or address that the metrics are on; empty: rpc.host
  int metrics_port = 8002;   // 0: any free one; -1: no metrics
  RequestLogOptions request_log;
  // How long calls are still let in after the signal to stop, while health says NOT_SERVING: until balancers have seen
  // it.
  int64_t drain_delay_s = 0;
  int64_t drain_timeout_s = 30;  // then, how long accepted calls may take to finish; 0: they are cut off
};

// The process's exit codes.
enum ExitCode : int {
  kExitOk = 0,
  kExitDrainTimeout = 1,
  kExitUsage = 2,
  kExitModel = 3,
  kExitPort = 4,
  kExitDevice = 5,
  kExitSecrets = 6,
};

// Listens, loads, warms up, serves until a signal, drains. SIGHUP loads all models again. A failure is one line in the
// log. The log is set up already. `version` is what the metrics say. Throws std::system_error when a thread cannot be
// started.
ExitCode RunServer(const ServerConfig& config, const std::string& version, StopSignals& stop);

}  // namespace lion
