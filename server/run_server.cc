#include "server/run_server.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/resources.h"
#include "server/log.h"

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

}  // namespace

ExitCode RunServer(const ServerConfig& config, StopSignals& stop) {
  absl::StatusOr<std::vector<ModelSpec>> specs = ParseModelSpecs(config.models);
  if (!specs.ok()) {
    LogError(specs.status().message());
    return kExitUsage;
  }
  if (config.decode_threads < 0 || config.decode_threads > 1024 || config.drain_timeout_s < 0 ||
      config.drain_timeout_s > 86'400) {
    LogError(absl::StrCat("decode threads: got ", config.decode_threads, ", want 0 to 1024; drain timeout: got ",
                          config.drain_timeout_s, " s, want 0 to 86400"));
    return kExitUsage;
  }
  SteadyClock clock;
  FairBudget decode_bytes(std::max(kMinDecodeBytes, MemoryLimitBytes() / 8));
  FairBudget device_turn(1);
  ThreadPool decode_pool("lion-decode", config.decode_threads > 0 ? config.decode_threads : CpuLimit());
  const SharedResources shared = {&clock, &decode_pool, &decode_bytes, &device_turn};
  ModelRegistry registry(&clock);

  absl::StatusOr<std::unique_ptr<RpcServer>> started = RpcServer::Start(config.rpc, &registry, &clock);
  if (!started.ok()) {
    LogError(started.status().message());
    return absl::IsInvalidArgument(started.status()) ? kExitUsage : kExitPort;
  }
  RpcServer& rpc = **started;
  LogInfo(absl::StrCat("listening on ", config.rpc.host, " port ", rpc.port(), ", NOT_SERVING until warmed up"));

  const auto on_fault = [&rpc](const std::string& name, const absl::Status& status) {
    LogError(absl::StrCat("the device failed under model ", name, ", NOT_SERVING from now on: ", status.message()));
    std::vector<std::string> services = kServiceNames;
    services.push_back(name);
    rpc.SetServing(services, false);
  };
  std::vector<std::unique_ptr<ModelService>> models;
  if (const StartUpFailure failure = StartModels(*specs, config.start_up, shared, on_fault, &models);
      failure.kind != StartUpFailure::Kind::kNone) {
    LogError(failure.status.message());
    return failure.kind == StartUpFailure::Kind::kModel ? kExitModel : kExitDevice;
  }

  stop.StartFinishing();
  std::vector<std::string> services = kServiceNames;
  for (const ModelSpec& spec : *specs) services.push_back(spec.name);
  registry.Serve(std::move(models));
  rpc.SetServing(services, true);
  LogInfo(absl::StrCat("SERVING on ", config.rpc.host, " port ", rpc.port()));

  while (!stop.Wait(clock, clock.NowNs() + kTrimIntervalNs)) ReturnFreeMemory();

  rpc.StopServing();
  registry.Drain();
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
