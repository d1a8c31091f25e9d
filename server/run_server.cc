#include "server/run_server.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/resources.h"
#include "server/log.h"
#include "server/metrics/metrics_server.h"
#include "server/process_limits.h"

namespace lion {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kTrimIntervalNs = 5 * kSecondNs;
constexpr size_t kTrimFreeBytes = size_t{64} << 20;
// For replies on their way and for idle streams, once all calls are answered.
constexpr int64_t kReplyGraceMs = 1000;
// How long no call must have been refused before the listener closes, and how long that may take.
constexpr int64_t kQuietNs = kSecondNs / 10;
constexpr int64_t kMaxQuietWaitNs = kSecondNs;
constexpr int64_t kMinDecodeBytes = int64_t{64} << 20;

// Large messages leave holes between what is still in use, which malloc keeps: given back, the resident size stays
// flat.
void ReturnFreeMemory() {
  if (mallinfo2().fordblks > kTrimFreeBytes) malloc_trim(0);
}

constexpr int64_t kInputsInQueue = 4;  // of the largest
constexpr int64_t kMinTextQueueBytes = int64_t{64} << 20;
constexpr int kMostTokenizeThreads = 2;  // of their own accord: tokenizing a text takes far less than its forward pass
constexpr int kOtherThreads = 32;        // gRPC's, and a model's batching and replying
constexpr int kMaxProbedThreads = 16384;

// What needs no model to be found wrong.
absl::Status CheckConfig(const ServerConfig& config) {
  const ModelServiceOptions& service = config.start_up.service;
  const bool input_is_set = service.max_input_tokens > 0;
  const int64_t least_queue = input_is_set ? service.max_input_tokens : service.max_batch_tokens;
  if (service.max_queue_tokens > 0 && service.max_queue_tokens < least_queue) {
    return absl::InvalidArgumentError(absl::StrCat("--max-queue-tokens: got ", service.max_queue_tokens,
                                                   ", want 0 or at least ", least_queue, ", ",
                                                   input_is_set ? "--max-input-tokens" : "--max-batch-tokens"));
  }
  if (config.tokenize_threads < 0 || config.tokenize_threads > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenize threads: got ", config.tokenize_threads, ", want 0 to 1024"));
  }
  if (config.decode_threads < 0 || config.decode_threads > 1024 || config.drain_timeout_s < 0 ||
      config.drain_timeout_s > 86'400 || config.max_decode_bytes < 0 || config.max_queue_pixels < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode threads: got ", config.decode_threads, ", want 0 to 1024; drain timeout: got ",
                     config.drain_timeout_s, " s, want 0 to 86400; max decode bytes: got ", config.max_decode_bytes,
                     ", want >= 0; max queue pixels: got ", config.max_queue_pixels, ", want >= 0"));
  }
  return absl::OkStatus();
}

// That all threads can be had, before the port is open.
absl::Status CheckThreadsOf(const ServerConfig& config, int preparing_threads) {
  const int engine_threads = config.start_up.engine.threads > 0 ? config.start_up.engine.threads : CpuLimit();
  const auto models = static_cast<int64_t>(config.models.size());
  const int64_t threads = models * engine_threads + preparing_threads + kOtherThreads;
  return CheckThreads(static_cast<int>(std::min<int64_t>(threads, kMaxProbedThreads)));
}

absl::StatusOr<std::unique_ptr<Secrets>> LoadSecrets(const ServerConfig& config, Clock* clock) {
  absl::StatusOr<std::unique_ptr<Secrets>> secrets = Secrets::Load(
      config.secrets, clock, [](const std::string& line, bool problem) { problem ? LogWarning(line) : LogInfo(line); });
  const std::string& host = config.rpc.host;
  const bool local = host == "localhost" || host == "::1" || host == "[::1]" || absl::StartsWith(host, "127.");
  if (secrets.ok() && (*secrets)->tokens() != nullptr && (*secrets)->tls() == nullptr && config.rpc.port >= 0 &&
      !local) {
    LogWarning(
        absl::StrCat("tokens come in plaintext to ", host,
                     ": whoever sees the traffic can use them. Give --tls-cert and --tls-key, unless something in "
                     "front of this server encrypts"));
  }
  return secrets;
}

PreparePoolOptions DecodingOf(const ServerConfig& config) {
  const int64_t queue_pixels =
      config.max_queue_pixels > 0 ? config.max_queue_pixels : kInputsInQueue * config.start_up.service.max_image_pixels;
  return {.threads = config.decode_threads > 0 ? config.decode_threads : CpuLimit(),
          .max_queue_work = queue_pixels,
          .kind = kImageKind};
}

PreparePoolOptions TokenizingOf(const ServerConfig& config) {
  return {.threads = config.tokenize_threads > 0 ? config.tokenize_threads : std::min(CpuLimit(), kMostTokenizeThreads),
          .max_queue_work = std::max(kMinTextQueueBytes, kInputsInQueue * config.start_up.service.max_text_bytes),
          .kind = kTextKind};
}

}  // namespace

ExitCode RunServer(const ServerConfig& config, const std::string& version, StopSignals& stop) {
  absl::StatusOr<std::vector<ModelSpec>> specs = ParseModelSpecs(config.models);
  if (!specs.ok()) {
    LogError(specs.status().message());
    return kExitUsage;
  }
  if (absl::Status status = CheckConfig(config); !status.ok()) {
    LogError(status.message());
    return kExitUsage;
  }
  const PreparePoolOptions decode = DecodingOf(config);
  const PreparePoolOptions tokenize = TokenizingOf(config);
  if (absl::Status status = CheckThreadsOf(config, decode.threads + tokenize.threads); !status.ok()) {
    LogError(absl::StrCat(status.message(),
                          ": lower --cpu-threads (0: the processors), --decode-threads, --tokenize-threads, or raise "
                          "the limits of threads and memory"));
    return kExitDevice;
  }
  const int64_t open_files = RaiseOpenFileLimit();
  SteadyClock clock;
  FairBudget decode_bytes(config.max_decode_bytes > 0 ? config.max_decode_bytes
                                                      : std::max(kMinDecodeBytes, MemoryLimitBytes() / 8));
  FairBudget device_turn(1);
  PreparePool decode_pool(decode, &clock, &decode_bytes);
  // What a text takes while it is tokenized is bounded by --max-text-bytes and the number of threads.
  PreparePool tokenize_pool(tokenize, &clock, /*bytes=*/nullptr);
  Metrics metrics(version, "cpu");
  std::atomic<bool> serving = false, device_failed = false;
  const SharedResources shared = {.clock = &clock,
                                  .decode_pool = &decode_pool,
                                  .decode_bytes = &decode_bytes,
                                  .tokenize_pool = &tokenize_pool,
                                  .device_turn = &device_turn,
                                  .metrics = &metrics};
  ModelRegistry registry(&clock);

  const absl::StatusOr<std::unique_ptr<Secrets>> secrets = LoadSecrets(config, &clock);
  if (!secrets.ok()) {
    LogError(secrets.status().message());
    return absl::IsInvalidArgument(secrets.status()) ? kExitUsage : kExitSecrets;
  }
  RpcServerOptions rpc_options = config.rpc;
  rpc_options.metrics = &metrics;
  rpc_options.secrets = secrets->get();
  absl::StatusOr<std::unique_ptr<RpcServer>> started = RpcServer::Start(rpc_options, &registry, &clock);
  if (!started.ok()) {
    LogError(started.status().message());
    return absl::IsInvalidArgument(started.status()) ? kExitUsage : kExitPort;
  }
  RpcServer& rpc = **started;
  std::vector<std::string> services = kServiceNames;
  for (const ModelSpec& spec : *specs) services.push_back(spec.name);
  rpc.SetServing(services, false);
  LogInfo(
      absl::StrCat("listening on ", rpc.address(), ", NOT_SERVING until warmed up, up to ", open_files, " open files"));

  std::unique_ptr<HttpPages> metrics_server;
  if (config.metrics_port >= 0) {
    absl::StatusOr<std::unique_ptr<HttpPages>> listening =
        ServeMetrics(config.rpc.host, config.metrics_port, metrics, [&] { return serving && !device_failed; });
    if (!listening.ok()) {
      LogError(listening.status().message());
      return kExitPort;
    }
    metrics_server = *std::move(listening);
    LogInfo(absl::StrCat("metrics on port ", metrics_server->port()));
  }

  const auto set_ready = [&](bool ready) {
    serving = ready;
    for (const ModelService* model : registry.models()) model->info().metrics->SetReady(ready && !device_failed);
  };
  const auto on_fault = [&](const std::string& name, const absl::Status& status) {
    LogError(absl::StrCat("the device failed under model ", name, ", NOT_SERVING from now on: ", status.message()));
    std::vector<std::string> failed = kServiceNames;
    failed.push_back(name);
    rpc.SetFailed(failed);
    device_failed = true;
    set_ready(serving);
  };
  std::vector<std::unique_ptr<ModelService>> models;
  if (const StartUpFailure failure = StartModels(*specs, config.start_up, shared, on_fault, &models);
      failure.kind != StartUpFailure::Kind::kNone) {
    LogError(failure.status.message());
    return failure.kind == StartUpFailure::Kind::kModel ? kExitModel : kExitDevice;
  }

  stop.StartFinishing();
  registry.Serve(std::move(models));
  rpc.SetServing(services, true);
  set_ready(true);
  LogInfo(absl::StrCat("SERVING on ", rpc.address()));

  while (!stop.Wait(clock, clock.NowNs() + kTrimIntervalNs)) ReturnFreeMemory();

  set_ready(false);
  rpc.StopServing();
  registry.Drain();
  rpc.DrainStreams();
  if (!registry.WaitEmpty(clock.NowNs() + config.drain_timeout_s * kSecondNs)) {
    // A batch that still runs cannot be interrupted, and destructors would wait for it.
    LogWarning(absl::StrCat("calls are unfinished after ", config.drain_timeout_s, " s (--drain-timeout-s): exit"));
    _exit(kExitDrainTimeout);
  }
  registry.WaitQuiet(kQuietNs, clock.NowNs() + kMaxQuietWaitNs);
  rpc.Shutdown(kReplyGraceMs);
  LogInfo("all accepted calls are finished: exit");
  return kExitOk;
}

}  // namespace lion
