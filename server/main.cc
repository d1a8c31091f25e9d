// lion-server: flags, environment variables (LION_*) and configuration file, from one definition each.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

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

// An enumeration by its names, in any case.
template <class T>
CLI::Option* AddChoice(CLI::App& app, const std::string& flag, T& value, const std::map<std::string, T>& names,
                       const std::string& help) {
  return app.add_option(flag, value, help)
      ->envname(EnvironmentName(flag))
      ->transform(CLI::CheckedTransformer(names, CLI::ignore_case));
}

struct LogOptions {
  LogFormat format = LogFormat::kText;
  std::string level = "info";
};

// The loader's overrides, unset unless given.
struct LoadFlags {
  Variant variant{};
  PatchOrder order{};
  Pooling pooling{};
  int64_t heads = 0;
};

void AddModelFlags(CLI::App& app, ServerConfig& config, LoadFlags& load) {
  Add(app, "--model", config.models, "[NAME=]PATH of a checkpoint file or folder; may be repeated")->required();
  AddChoice(app, "--weights", config.start_up.load.weights,
            {{"model", WeightChoice::kModel}, {"ema", WeightChoice::kEma}},
            "which weights of a checkpoint that holds an average as well (default: model)");
  AddChoice(app, "--mask-type", load.variant,
            {{"lit", Variant::kLionLit},
             {"decay", Variant::kLionD},
             {"selective", Variant::kLionS},
             {"softmax", Variant::kSoftmax}},
            "the mixer, where the checkpoint does not say");
  AddChoice(app, "--order", load.order, {{"normal", PatchOrder::kNormal}, {"s", PatchOrder::kS}},
            "the patch order, where the checkpoint does not say");
  Add(app, "--heads", load.heads, "the number of heads, where the checkpoint does not say")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  AddChoice(app, "--pooling", load.pooling, {{"mean", Pooling::kMean}, {"cls", Pooling::kCls}},
            "the model's own pooling, where the checkpoint does not say");
  app.add_flag("--allow-unused", config.start_up.load.allow_unused, "drop the tensors of heads that are not used")
      ->envname("LION_ALLOW_UNUSED");
}

void AddEngineFlags(CLI::App& app, EngineOptions& engine) {
  AddChoice(app, "--device", engine.device,
            {{"auto", Device::kAuto}, {"cpu", Device::kCpu}, {"reference", Device::kReference}},
            "what computes (default: auto); reference: slow plain loops, for debugging");
  AddChoice(app, "--compute-type", engine.compute_type,
            {{"auto", ComputeType::kAuto}, {"float32", ComputeType::kFloat32}, {"bfloat16", ComputeType::kBFloat16}},
            "of matrix products (default: auto, bfloat16 where the processor is fast at it)");
  AddChoice(app, "--mixer", engine.mixer,
            {{"auto", MixerForm::kAuto},
             {"chunk", MixerForm::kChunk},
             {"recurrent", MixerForm::kRecurrent},
             {"attention", MixerForm::kAttention}},
            "the form of the LION mixer (default: auto); all give the same result");
  Add(app, "--isa", engine.isa, "instruction set of the CPU kernels: auto, scalar, avx2, avx512");
  Add(app, "--cpu-threads", engine.threads, "threads of the forward pass; 0: the processors the container may use")
      ->check(CLI::Range(0, 4096));
}

void AddServingFlags(CLI::App& app, ServerConfig& config) {
  const CLI::Range positive(int64_t{1}, int64_t{1} << 40);
  const CLI::Range not_negative(int64_t{0}, int64_t{1} << 40);
  ModelServiceOptions& service = config.start_up.service;
  Add(app, "--host", config.rpc.host, "name or address to listen on");
  Add(app, "--grpc-port", config.rpc.port, "0: any free one, which the log names")->check(CLI::Range(0, 65535));
  Add(app, "--max-batch-tokens", service.max_batch_tokens, "tokens that a batch is formed up to")->check(positive);
  Add(app, "--max-batch-inputs", service.max_batch_inputs, "inputs of a batch")->check(positive);
  Add(app, "--max-wait-us", service.max_wait_us,
      "how long an idle device waits for a fuller batch; 0: batches form while it is busy")
      ->check(CLI::Range(int64_t{0}, int64_t{3'600'000'000}));
  Add(app, "--max-input-tokens", service.max_input_tokens, "tokens of one input; 0: what the memory allows")
      ->check(not_negative);
  Add(app, "--max-queue-tokens", service.max_queue_tokens,
      "tokens that may be decoded or waiting before calls are refused; 0: 16 batches")
      ->check(not_negative);
  Add(app, "--max-inputs-per-call", service.max_inputs_per_call, "inputs of one call")->check(positive);
  Add(app, "--max-image-pixels", service.max_image_pixels, "width x height of an encoded image")->check(positive);
  Add(app, "--max-message-bytes", config.rpc.max_message_bytes, "of one request")
      ->check(CLI::Range(int64_t{1}, int64_t{2147483647}));
  Add(app, "--decode-threads", config.decode_threads, "threads that decode images; 0: as many as processors")
      ->check(CLI::Range(0, 1024));
  Add(app, "--drain-timeout-s", config.drain_timeout_s, "how long accepted calls may take to finish after SIGTERM")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400}));
}

int Main(int argc, char** argv) {
  CLI::App app("lion-server: low-latency inference for LION models over gRPC");
  ServerConfig config;
  LogOptions log;
  LoadFlags load;
  AddModelFlags(app, config, load);
  AddEngineFlags(app, config.start_up.engine);
  AddServingFlags(app, config);
  AddChoice(app, "--log-format", log.format, {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
            "text (default), or json: one object a line");
  Add(app, "--log-level", log.level, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  app.set_config("--config", "", "a TOML file with the same names as the flags")->envname("LION_CONFIG");
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
    std::cout << app.config_to_str(/*default_also=*/true);
    return kExitOk;
  }
  LoadOptions& loader = config.start_up.load;
  if (app.count("--mask-type") > 0) loader.variant = load.variant;
  if (app.count("--order") > 0) loader.order = load.order;
  if (app.count("--heads") > 0) loader.heads = load.heads;
  if (app.count("--pooling") > 0) loader.pooling = load.pooling;

  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  mallopt(M_TRIM_THRESHOLD, 2 * kMmapThresholdBytes);
  if (absl::Status status = SetUpLog(log.format, log.level); !status.ok()) {
    std::cerr << status.message() << "\n";
    return kExitUsage;
  }
  // Lives until the process ends, and comes before all other threads.
  static auto& stop = *new StopSignals();
  return RunServer(config, stop);
}

}  // namespace
}  // namespace lion

int main(int argc, char** argv) { return lion::Main(argc, argv); }
