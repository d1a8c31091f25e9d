#include "client/cli/bench/bench.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/bench/arrivals.h"
#include "client/cli/bench/bench_clock.h"
#include "client/cli/bench/grpc_sender.h"
#include "client/cli/bench/report.h"
#include "client/cli/bench/runner.h"
#include "client/cli/bench/size_mix.h"
#include "client/cli/bench/summary.h"
#include "client/cli/bench/workload.h"
#include "client/cli/connection.h"
#include "client/cli/console.h"
#include "client/cli/text.h"

namespace lion::bench {
namespace {

constexpr int64_t kUsualSize = 224;  // where neither the flags nor the model name one

template <typename Value>
std::string NameOf(const std::map<std::string, Value>& names, Value wanted) {
  for (const auto& [name, value] : names) {
    if (value == wanted) return name;
  }
  return "";
}

int64_t Nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

std::atomic<int> stops = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch it");

// Ctrl-C ends the schedule, a second one also what is in flight, a third one the process.
class StopSignals {
 public:
  StopSignals() {
    stops.store(0);
    struct sigaction action = {};
    action.sa_handler = [](int signal) {
      if (stops.fetch_add(1) >= 2) {
        std::signal(signal, SIG_DFL);
        std::raise(signal);
      }
    };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &old_int_);
    ::sigaction(SIGTERM, &action, &old_term_);
  }
  ~StopSignals() {
    ::sigaction(SIGINT, &old_int_, nullptr);
    ::sigaction(SIGTERM, &old_term_, nullptr);
  }

 private:
  struct sigaction old_int_;
  struct sigaction old_term_;
};

absl::StatusOr<std::vector<std::unique_ptr<Client>>> MakeClients(const BenchFlags& flags) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < flags.connections; ++i) {
    ClientOptions options = ClientOptionsFor(flags.server);
    options.own_connection = true;
    auto client = Client::Create(options);
    if (!client.ok()) return client.status();
    clients.push_back(*std::move(client));
  }
  return clients;
}

RunRecord Run(const BenchFlags& flags, const std::vector<SizeShare>& mix, Sender& sender) {
  RunLimits limits;
  limits.warm_up_ns = Nanoseconds(flags.warm_up_s);
  limits.duration_ns = flags.requests > 0 ? 0 : Nanoseconds(flags.duration_s);
  limits.calls = flags.requests;
  limits.max_in_flight = flags.max_in_flight;
  // Neither the pictures nor the arrivals repeat the sizes' random numbers.
  SizeDraw sizes(mix, flags.seed + 1);
  RealClock clock;
  const StopSignals signals;
  const RunParts parts = {&sizes, mix.size(), &clock, &sender, &stops};
  if (flags.rate == 0) return RunClosedLoop(flags.concurrency, limits, parts);
  const auto arrivals = flags.poisson ? PoissonArrivals(flags.rate, flags.seed + 2) : ConstantArrivals(flags.rate);
  return RunOpenLoop(*arrivals, limits, parts);
}

}  // namespace

const std::map<std::string, CallKind>& CallKinds() {
  static const auto* const kKinds =
      new std::map<std::string, CallKind>{{"embed", CallKind::kEmbed}, {"classify", CallKind::kClassify}};
  return *kKinds;
}

const std::map<std::string, ImageFormat>& ImageFormats() {
  static const auto* const kFormats = new std::map<std::string, ImageFormat>{
      {"pixels", ImageFormat::kPixels}, {"png", ImageFormat::kPng}, {"jpeg", ImageFormat::kJpeg}};
  return *kFormats;
}

std::string CallKindName(CallKind kind) { return NameOf(CallKinds(), kind); }
std::string ImageFormatName(ImageFormat format) { return NameOf(ImageFormats(), format); }

int RunBench(const BenchFlags& flags) {
  auto clients = MakeClients(flags);
  if (!clients.ok()) return Fail(std::string(clients.status().message()));
  const auto model = clients->front()->GetModel(flags.model);
  if (!model.ok()) return Fail(ExplainError(model.status(), flags.server.address));

  const int64_t usual = model->image_size() > 0 ? model->image_size() : kUsualSize;
  const auto mix = ParseSizeMix(flags.sizes.empty() ? absl::StrCat(usual) : flags.sizes);
  if (!mix.ok()) return Fail(absl::StrCat("--sizes ", std::string(mix.status().message())));
  auto requests = BuildRequests(flags, *mix);
  if (!requests.ok()) return Fail(std::string(requests.status().message()));
  for (const auto& client : *clients) client->WaitForConnection(std::chrono::seconds(10));

  if (IsTerminal(2)) std::fprintf(stderr, "lion: running; Ctrl-C ends it early, with a report\n");
  GrpcSender sender(*std::move(clients), *std::move(requests));
  const Summary summary = Summarize(flags, *mix, Run(flags, *mix, sender));

  int exit_status = summary.succeeded > 0 ? 0 : 1;
  if (flags.json != "-") exit_status = Print(ReportText(flags, *model, summary), exit_status);
  if (!flags.json.empty()) {
    const std::string path = flags.json == "-" ? "" : flags.json;
    const absl::Status written = WriteReport(path, ReportJson(flags, *model, summary));
    if (!written.ok()) exit_status = Fail(std::string(written.message()));
  }
  if (summary.succeeded == 0 && !summary.failures.empty()) {
    Fail(absl::StrCat("no call succeeded: ", ExplainError(summary.failures[0].example, flags.server.address)));
  }
  return exit_status;
}

}  // namespace lion::bench
