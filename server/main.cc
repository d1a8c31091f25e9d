// lion-server: flags, environment variables (LION_*) and configuration file, from one definition each.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/log.h"
#include "server/run_server.h"

namespace lion {
namespace {

// Larger blocks are mapped on their own and go back to the system when freed, so that big images leave no holes behind.
constexpr int kMmapThresholdBytes = 4 << 20;

// --max-wait-us: LION_MAX_WAIT_US.
std::string EnvironmentName(const std::string& flag) {
  std::string name = "LION_";
  for (const char c : flag.substr(2)) name += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return name;
}

template <class T>
CLI::Option* Add(CLI::App& app, const std::string& flag, T& value, const std::string& help) {
  return app.add_option(flag, value, help)->envname(EnvironmentName(flag))->capture_default_str();
}

template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};

// An enumeration by its names, in any case. The value is set by the returned function, after parsing, so that
// --print-config shows names; a name without a value leaves it as it is.
using Settle = std::function<void()>;
template <class T>
Settle AddChoice(CLI::App& app, const std::string& flag, T& value, const std::string& default_name,
                 const std::map<std::string, typename ValueOf<T>::Type>& names, const std::string& help) {
  auto chosen = std::make_shared<std::string>(default_name);
  std::set<std::string> allowed = {default_name};
  for (const auto& [name, unused] : names) allowed.insert(name);
  Add(app, flag, *chosen, help)->transform(CLI::IsMember(allowed, CLI::ignore_case));
  return [chosen, names, &value] {
    if (const auto found = names.find(*chosen); found != names.end()) value = found->second;
  };
}

// An architecture value by every name that the model loader knows; "auto" leaves it unset. `names`: the usual ones.
template <class T>
Settle AddNamed(CLI::App& app, const std::string& flag, std::optional<T>& value,
                std::optional<T> (*parse)(std::string_view), const std::string& names, const std::string& help) {
  auto chosen = std::make_shared<std::string>("auto");
  const auto check = [parse, names](const std::string& text) {
    const bool known = CLI::detail::to_lower(text) == "auto" || parse(text).has_value();
    return known ? std::string() : "got '" + text + "', want auto|" + names;
  };
  Add(app, flag, *chosen, help)->check(CLI::Validator(check, "auto|" + names));
  return [chosen, parse, &value] { value = parse(*chosen); };
}

// An empty variable counts as unset, as it does for CLI11.
bool IsSetInEnvironment(const std::string& flag) {
  const char* value = std::getenv(EnvironmentName(flag).c_str());
  return value != nullptr && *value != '\0';
}

// The configuration file, without what the environment sets: that ranks higher. A key that is no flag is an error.
class FileBelowEnvironment : public CLI::ConfigTOML {
 public:
  explicit FileBelowEnvironment(const CLI::App* app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> settings = CLI::ConfigTOML::from_config(input);
    for (const CLI::ConfigItem& item : settings) {
      const CLI::Option* option = item.parents.empty() ? app_->get_option_no_throw("--" + item.name) : nullptr;
      if (option == nullptr || !option->get_configurable()) {
        const bool is_section = item.name == "++" || item.name == "--";
        throw CLI::ConfigError(
            "--config: " +
            (is_section ? "section [" + CLI::detail::join(item.parents, ".") + "]" : "'" + item.fullname() + "'") +
            " is not known; want the names of the flags, without sections: lion-server --help");
      }
    }
    std::erase_if(settings, [](const CLI::ConfigItem& item) { return IsSetInEnvironment("--" + item.name); });
    return settings;
  }

  // Without the list of no models, which CLI11 writes in a way that it does not read.
  std::string to_config(const CLI::App* app, bool defaults, bool descriptions, std::string prefix) const override {
    std::string text = CLI::ConfigTOML::to_config(app, defaults, descriptions, std::move(prefix));
    constexpr std::string_view kNoModels = "model=\"[]\"\n";
    if (const size_t found = text.find(kNoModels); found != std::string::npos) text.erase(found, kNoModels.size());
    return text;
  }

 private:
  const CLI::App* const app_;
};

struct LogOptions {
  LogFormat format = LogFormat::kText;
  std::string level = "info";
};

std::vector<Settle> AddModelFlags(CLI::App& app, ServerConfig& config) {
  LoadOptions& load = config.start_up.load;
  Add(app, "--model", config.models, "[NAME=]PATH of a checkpoint file or folder");
  Add(app, "--model-repository", config.model_repository,
      "a folder of models: NAME/ or NAME/VERSION/, of which the highest is served");
  Add(app, "--model-poll-s", config.model_poll_s,
      "how often the models' files are looked at, and loaded again once a change is complete; 0: only on SIGHUP")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400}));
  std::vector<Settle> settle;
  settle.push_back(AddChoice(app, "--weights", load.weights, "model",
                             {{"model", WeightChoice::kModel}, {"ema", WeightChoice::kEma}},
                             "which weights of a checkpoint that holds an average as well"));
  settle.push_back(AddNamed(app, "--mask-type", load.variant, ParseVariant, "lit|d|s|softmax",
                            "the mixer; auto: as the checkpoint says"));
  settle.push_back(AddNamed(app, "--order", load.order, ParsePatchOrder, "normal|s",
                            "the patch order; auto: as the checkpoint says"));
  settle.push_back(AddNamed(app, "--pooling", load.pooling, ParsePooling, "mean|cls|pooler|max|last|none",
                            "the model's own pooling; auto: as the checkpoint says"));
  auto heads = std::make_shared<int64_t>(0);
  Add(app, "--heads", *heads, "the number of heads; 0: as the checkpoint says")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 16));
  settle.push_back([heads, &load] {
    if (*heads > 0) load.heads = *heads;
  });
  app.add_flag("--allow-unused", load.allow_unused, "drop the tensors of heads that are not used")
      ->envname("LION_ALLOW_UNUSED");
  return settle;
}

std::vector<Settle> AddEngineFlags(CLI::App& app, EngineOptions& engine) {
  std::vector<Settle> settle;
  settle.push_back(AddChoice(app, "--device", engine.device, "auto",
                             {{"auto", Device::kAuto}, {"cpu", Device::kCpu}, {"reference", Device::kReference}},
                             "what computes; reference: slow plain loops, for debugging"));
  settle.push_back(AddChoice(
      app, "--compute-type", engine.compute_type, "auto",
      {{"auto", ComputeType::kAuto}, {"float32", ComputeType::kFloat32}, {"bfloat16", ComputeType::kBFloat16}},
      "of matrix products; auto: bfloat16 where the processor is fast at it"));
  settle.push_back(AddChoice(app, "--mixer", engine.mixer, "auto",
                             {{"auto", MixerForm::kAuto},
                              {"chunk", MixerForm::kChunk},
                              {"recurrent", MixerForm::kRecurrent},
                              {"attention", MixerForm::kAttention}},
                             "the form of the LION mixer; all give the same result"));
  Add(app, "--isa", engine.isa, "instruction set of the CPU kernels")
      ->transform(CLI::IsMember({"auto", "scalar", "avx2", "avx512"}, CLI::ignore_case));
  Add(app, "--cpu-threads", engine.threads, "threads of the forward pass; 0: the processors the container may use")
      ->check(CLI::Range(0, 4096));
  return settle;
}

std::vector<Settle> AddSecurityFlags(CLI::App& app, ServerConfig& config) {
  RpcServerOptions& rpc = config.rpc;
  Add(app, "--unix-socket", rpc.unix_socket, "a path to listen on as well, without TLS");
  auto mode = std::make_shared<std::string>("660");
  Add(app, "--unix-socket-mode", *mode, "its permissions, octal: whoever may write may connect")
      ->check([](const std::string& text) {
        const bool octal = text.size() >= 3 && text.size() <= 4 && text.find_first_not_of("01234567") == text.npos;
        return octal && std::stoi(text, nullptr, 8) <= 0777 ? "" : "got '" + text + "', want an octal number to 777";
      });
  Add(app, "--tls-cert", config.secrets.tls.certificate,
      "a file of the server's certificate and those above it, in PEM; read again when it changes, as those below");
  Add(app, "--tls-key", config.secrets.tls.key, "a file of its key, in PEM");
  Add(app, "--tls-client-ca", config.secrets.tls.client_ca,
      "a file of authorities, in PEM, one of which must have signed a caller's certificate");
  Add(app, "--token-file", config.secrets.token_file,
      "a file of tokens, one a line, one of which a call must bring: authorization: Bearer TOKEN");
  app.add_flag("--allow-model-control", rpc.allow_model_control, "callers may load and unload models")
      ->envname("LION_ALLOW_MODEL_CONTROL");
  auto no_reflection = std::make_shared<bool>(false);
  app.add_flag("--no-reflection", *no_reflection, "do not tell callers the API")->envname("LION_NO_REFLECTION");
  const CLI::Range seconds(int64_t{0}, int64_t{2'000'000});
  Add(app, "--max-connection-age-s", rpc.connections.max_age_s,
      "after which a client has to connect again, give or take a tenth; 0: never")
      ->check(seconds);
  Add(app, "--max-connection-age-grace-s", rpc.connections.max_age_grace_s,
      "what its open calls and streams have left then; 0: any time")
      ->check(seconds);
  Add(app, "--max-connection-idle-s", rpc.connections.max_idle_s, "the same for a connection without calls; 0: never")
      ->check(seconds);
  return {[mode, no_reflection, &rpc] {
    rpc.unix_socket_mode = std::stoi(*mode, nullptr, 8);
    rpc.reflection = !*no_reflection;
  }};
}

std::vector<Settle> AddServingFlags(CLI::App& app, ServerConfig& config) {
  const CLI::Range positive(int64_t{1}, int64_t{1} << 40);
  const CLI::Range not_negative(int64_t{0}, int64_t{1} << 40);
  ModelServiceOptions& service = config.start_up.service;
  Add(app, "--host", config.rpc.host, "name or address to listen on");
  Add(app, "--grpc-port", config.rpc.port, "0: any free one, which the log names; -1: none, but --unix-socket")
      ->check(CLI::Range(-1, 65535));
  Add(app, "--metrics-host", config.metrics_host, "name or address that --metrics-port is on; empty: that of --host");
  Add(app, "--metrics-port", config.metrics_port,
      "of /metrics for Prometheus and of /health, over HTTP; 0: any free one; -1: none")
      ->check(CLI::Range(-1, 65535));
  Add(app, "--max-batch-tokens", service.max_batch_tokens, "tokens that a batch is formed up to")->check(positive);
  Add(app, "--max-batch-ms", service.max_batch_ms,
      "time that a batch may take: it gets no more tokens than recent ones computed in that time, but 512; 0: any")
      ->check(CLI::Range(int64_t{0}, int64_t{3'600'000}));
  Add(app, "--max-batch-inputs", service.max_batch_inputs, "inputs of a batch")->check(positive);
  Add(app, "--max-wait-us", service.max_wait_us,
      "how long an idle device waits for a fuller batch; 0: batches form while it is busy")
      ->check(CLI::Range(int64_t{0}, int64_t{3'600'000'000}));
  Add(app, "--max-input-tokens", service.max_input_tokens,
      "tokens of one input; 0: what the model and the memory allow")
      ->check(not_negative);
  Add(app, "--max-queue-tokens", service.max_queue_tokens,
      "tokens that may be in preparation or waiting before calls are refused; 0: 16 batches")
      ->check(not_negative);
  Add(app, "--max-inputs-per-call", service.max_inputs_per_call, "inputs of one call")->check(positive);
  Add(app, "--max-image-pixels", service.max_image_pixels, "width x height of an encoded image")->check(positive);
  Add(app, "--max-text-bytes", service.max_text_bytes, "of one text, before it is tokenized")->check(positive);
  Add(app, "--max-message-bytes", config.rpc.max_message_bytes, "of one request")
      ->check(CLI::Range(int64_t{1}, int64_t{2147483647}));
  Add(app, "--max-inflight-bytes", config.rpc.max_inflight_bytes,
      "of the requests and replies of all calls inside, together; 0: a quarter of the memory")
      ->check(not_negative);
  Add(app, "--max-stream-bytes", config.rpc.max_stream_bytes,
      "of the same, what one stream may hold before it is read from more slowly; 0: a 64th")
      ->check(not_negative);
  Add(app, "--max-stream-requests", config.rpc.max_stream_requests, "read from one stream and not answered yet")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}));
  Add(app, "--max-decode-bytes", config.max_decode_bytes,
      "memory of all decodes going on at once; an image that needs more is refused; 0: an eighth of the memory")
      ->check(not_negative);
  Add(app, "--max-queue-pixels", config.max_queue_pixels,
      "pixels that may wait to be decoded and resized before calls are refused; 0: 4 x --max-image-pixels")
      ->check(not_negative);
  Add(app, "--decode-threads", config.decode_threads, "threads that decode images; 0: as many as processors")
      ->check(CLI::Range(0, 1024));
  Add(app, "--tokenize-threads", config.tokenize_threads, "threads that tokenize texts; 0: one or two")
      ->check(CLI::Range(0, 1024));
  Add(app, "--drain-delay-s", config.drain_delay_s,
      "how long calls are still let in after SIGTERM, while health says NOT_SERVING")
      ->check(CLI::Range(int64_t{0}, int64_t{3600}));
  Add(app, "--drain-timeout-s", config.drain_timeout_s, "then, how long accepted calls may take to finish")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400}));
  std::vector<Settle> settle;
  settle.push_back(
      AddChoice(app, "--truncation", service.truncation, "none",
                {{"none", TextTruncation::kNone}, {"end", TextTruncation::kEnd}, {"start", TextTruncation::kStart}},
                "what a text that is too long loses where its call does not say; none: it is refused"));
  return settle;
}

Settle AddLogFlags(CLI::App& app, LogOptions& log, RequestLogOptions& requests) {
  Add(app, "--log-level", log.level, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  Add(app, "--slow-ms", requests.slow_ms, "a request that took longer is logged with its stages' times; 0: none is")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400'000}));
  app.add_flag("--access-log", requests.access_log, "a line of JSON on standard output for each request")
      ->envname("LION_ACCESS_LOG");
  return AddChoice(app, "--log-format", log.format, "text", {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
                   "json: one object a line");
}

int Main(int argc, char** argv) {
  CLI::App app("lion-server: low-latency inference for LION models over gRPC");
  app.config_formatter(std::make_shared<FileBelowEnvironment>(&app));
  ServerConfig config;
  LogOptions log;
  std::vector<Settle> settle = AddModelFlags(app, config);
  for (Settle& engine : AddEngineFlags(app, config.start_up.engine)) settle.push_back(std::move(engine));
  for (Settle& serving : AddServingFlags(app, config)) settle.push_back(std::move(serving));
  for (Settle& security : AddSecurityFlags(app, config)) settle.push_back(std::move(security));
  settle.push_back(AddLogFlags(app, log, config.request_log));
  // CLI11 would read the variable after the file.
  const bool config_is_set = IsSetInEnvironment("--config");
  app.set_config("--config", config_is_set ? std::getenv("LION_CONFIG") : "",
                 "a TOML file with the same names as the flags (Env:LION_CONFIG)", config_is_set)
      ->configurable(false);
  bool print_config = false;
  app.add_flag("--print-config", print_config, "print the settings as a configuration file and exit")
      ->configurable(false);
  app.set_version_flag("--version", std::string("lion-server ") + LION_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (print_config) {
    // CLI11 2.4 writes no models as one that is named "{}".
    if (config.models.empty()) app.get_option("--model")->configurable(false);
    std::cout << app.config_to_str(/*default_also=*/true);
    return kExitOk;
  }
  for (const Settle& set : settle) set();

  // Debian's Abseil looks for cycles in the order of all locks, which are gRPC's: a tenth of what a refused call costs.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  mallopt(M_TRIM_THRESHOLD, 2 * kMmapThresholdBytes);
  if (absl::Status status = SetUpLog(log.format, log.level); !status.ok()) {
    std::cerr << status.message() << "\n";
    return kExitUsage;
  }
  try {
    // Lives until the process ends, and comes before all other threads.
    static auto& stop = *new StopSignals();
    return RunServer(config, LION_VERSION, stop);
  } catch (const std::system_error& error) {
    LogError(
        std::string("cannot start a thread: ") + error.what() +
        ": lower --cpu-threads, --decode-threads or --tokenize-threads, or raise the limits of threads and memory");
    return kExitDevice;
  }
}

}  // namespace
}  // namespace lion

int main(int argc, char** argv) { return lion::Main(argc, argv); }
