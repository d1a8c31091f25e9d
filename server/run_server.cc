#include "server/run_server.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/resources.h"
#include "server/access_log.h"
#include "server/log.h"
#include "server/metrics/metrics_server.h"
#include "server/model_actions.h"
#include "server/model_control.h"
#include "server/model_repository.h"
#include "server/process_limits.h"
#include "server/readiness.h"

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
// For a model that is being loaded to be given up.
constexpr int64_t kGiveUpNs = kSecondNs;
constexpr int64_t kMinDecodeBytes = int64_t{64} << 20;

// Large messages leave holes between what is still in use, which malloc keeps: given back, the resident size stays
// flat.
void ReturnFreeMemory() {
  if (mallinfo2().fordblks > kTrimFreeBytes) malloc_trim(0);
}

constexpr int64_t kInputsInQueue = 4;  // of the largest
constexpr int64_t kMinTextQueueBytes = int64_t{64} << 20;
constexpr int kMostTokenizeThreads = 2;  // of their own accord: tokenizing a text takes far less than its forward pass
constexpr int kModelThreads = 2;         // batching and replying, of each
constexpr int kOtherThreads = 32;        // gRPC's, the log's, those that watch files and signals
constexpr int kMaxProbedThreads = 16384;

// What needs no model to be found wrong.
absl::Status CheckConfig(const ServerConfig& config) {
  if (config.models.empty() && config.model_repository.empty()) {
    return absl::InvalidArgumentError("no model: want --model [NAME=]PATH or --model-repository DIR");
  }
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
  if (config.drain_delay_s < 0 || config.drain_delay_s > 3600) {
    return absl::InvalidArgumentError(absl::StrCat("drain delay: got ", config.drain_delay_s, " s, want 0 to 3600"));
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

// Those that are given and those of the repository. What cannot be read there is an error later.
size_t CountModels(const ServerConfig& config) {
  if (config.model_repository.empty()) return config.models.size();
  const absl::StatusOr<RepositoryListing> listing = ListRepository(config.model_repository);
  return config.models.size() + (listing.ok() ? listing->models.size() : 0);
}

// That all threads can be had, before the port is open.
absl::Status CheckThreadsOf(const ServerConfig& config, int preparing_threads) {
  const int engine_threads = config.start_up.engine.threads > 0 ? config.start_up.engine.threads : CpuLimit();
  // One more than there are: a model is loaded beside the one that it replaces.
  const auto engines = static_cast<int64_t>(CountModels(config)) + 1;
  const int64_t threads = engines * (engine_threads + kModelThreads) + preparing_threads + kOtherThreads;
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

// Null: no request is logged.
std::unique_ptr<RequestLog> MakeRequestLog(const RequestLogOptions& options) {
  if (options.slow_ms == 0 && !options.access_log) return nullptr;
  RequestLog::Output output;
  output.slow = LogSlowRequest;
  output.left_out = [](int64_t requests) {
    LogWarning(absl::StrCat(requests, " more slow requests are not logged: at most ", RequestLog::kSlowLinesPerSecond,
                            " lines a second are written (--slow-ms)"));
  };
  if (options.access_log) {
    const std::shared_ptr<AccessLog> access = AccessLog::Start([](int64_t lines) {
      LogWarning(absl::StrCat(lines, " lines of the access log are lost so far: its reader is too slow"));
    });
    output.access = [access](const std::string& members) { access->Write(members); };
  }
  return std::make_unique<RequestLog>(options, std::move(output));
}

// What `metrics` and the allocator hold of a model goes with it.
void ForgetModel(const ModelInfo& model, Metrics* metrics) {
  metrics->Retire(model.name, model.version);
  malloc_trim(0);
  LogDebug(absl::StrCat("model ", model.name, ": version ", model.version, " is freed"));
}

}  // namespace

ExitCode RunServer(const ServerConfig& config, const std::string& version, StopSignals& stop) {
  const absl::StatusOr<std::vector<ModelSpec>> given = ParseModelSpecs(config.models);
  if (!given.ok()) {
    LogError(given.status().message());
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
  const SharedResources shared = {.clock = &clock,
                                  .decode_pool = &decode_pool,
                                  .decode_bytes = &decode_bytes,
                                  .tokenize_pool = &tokenize_pool,
                                  .device_turn = &device_turn,
                                  .metrics = &metrics};
  ModelRegistry registry(&clock, [&metrics](const ModelInfo& model) { ForgetModel(model, &metrics); });

  const absl::StatusOr<std::unique_ptr<Secrets>> secrets = LoadSecrets(config, &clock);
  if (!secrets.ok()) {
    LogError(secrets.status().message());
    return absl::IsInvalidArgument(secrets.status()) ? kExitUsage : kExitSecrets;
  }
  RpcServerOptions rpc_options = config.rpc;
  rpc_options.metrics = &metrics;
  rpc_options.version = version;
  rpc_options.secrets = secrets->get();
  const std::unique_ptr<RequestLog> request_log = MakeRequestLog(config.request_log);
  rpc_options.request_log = request_log.get();
  absl::StatusOr<std::unique_ptr<RpcServer>> started = RpcServer::Start(rpc_options, &registry, &clock);
  if (!started.ok()) {
    LogError(started.status().message());
    return absl::IsInvalidArgument(started.status()) ? kExitUsage : kExitPort;
  }
  RpcServer& rpc = **started;
  Readiness readiness(&registry, &rpc);
  ModelControl control(
      {.models = *given, .repository = config.model_repository, .poll_ns = config.model_poll_s * kSecondNs},
      MakeModelActions(&config.start_up, &shared, &readiness), &clock, &metrics);
  const absl::StatusOr<std::vector<ModelSpec>> specs = control.Begin();
  if (!specs.ok()) {
    LogError(specs.status().message());
    return absl::IsInvalidArgument(specs.status()) ? kExitUsage : kExitModel;
  }
  std::vector<std::string> names;
  for (const ModelSpec& spec : *specs) names.push_back(spec.name);
  readiness.Announce(names);
  LogInfo(
      absl::StrCat("listening on ", rpc.address(), ", NOT_SERVING until warmed up, up to ", open_files, " open files"));

  std::unique_ptr<HttpPages> metrics_server;
  if (config.metrics_port >= 0) {
    const bool apart = !config.metrics_host.empty();
    absl::StatusOr<std::unique_ptr<HttpPages>> listening = ServeMetrics(
        apart ? config.metrics_host : config.rpc.host, config.metrics_port, metrics, [&] { return readiness.ready(); });
    if (!listening.ok()) {
      LogError(listening.status().message());
      return kExitPort;
    }
    metrics_server = *std::move(listening);
    LogInfo(absl::StrCat("metrics on ", config.metrics_host, apart ? " " : "", "port ", metrics_server->port()));
  }

  std::vector<std::unique_ptr<ModelService>> models;
  if (const StartUpFailure failure = StartModels(
          *specs, config.start_up, shared,
          [&](const std::string& name, const absl::Status& status) { readiness.Fail(name, status); }, &models);
      failure.kind != StartUpFailure::Kind::kNone) {
    LogError(failure.status.message());
    return failure.kind == StartUpFailure::Kind::kModel ? kExitModel : kExitDevice;
  }

  stop.StartFinishing();
  if (models.empty()) LogWarning(absl::StrCat("no models yet: ", config.model_repository, " holds no folders"));
  readiness.Serve(std::move(models));
  control.Run();
  rpc.SetModelControl(&control);
  stop.OnReload([&control] { control.ReloadAll(); });
  LogInfo(absl::StrCat("SERVING on ", rpc.address()));

  while (!stop.Wait(clock, clock.NowNs() + kTrimIntervalNs)) ReturnFreeMemory();

  stop.OnReload({});
  control.Stop();
  readiness.Stop();
  if (config.drain_delay_s > 0) {
    LogInfo(absl::StrCat("NOT_SERVING; calls are let in for ", config.drain_delay_s, " s more (--drain-delay-s)"));
    std::this_thread::sleep_for(std::chrono::seconds(config.drain_delay_s));
  }
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
  if (!control.AwaitStopped(clock.NowNs() + kGiveUpNs)) {
    // Reading a model cannot be interrupted, and nobody waits for it.
    LogInfo("a model is still being loaded: exit without it");
    _exit(kExitOk);
  }
  return kExitOk;
}

}  // namespace lion
