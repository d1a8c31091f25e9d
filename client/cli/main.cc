// The `lion` command line: flags are bound here and in input_flags.cc, and nowhere else.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "client/cli/bench/bench.h"
#include "client/cli/bench/local.h"
#include "client/cli/bench/size_mix.h"
#include "client/cli/commands.h"
#include "client/cli/input_flags.h"
#include "client/cli/names.h"

namespace lion {
namespace {

constexpr int kUsageError = 2;

// A value by its names, in any case, for checkpoints that do not say it themselves.
template <typename Enum>
void AddArchitectureFlag(CLI::App* command, const std::string& flag, const std::string& names,
                         std::optional<Enum> (*parse)(std::string_view), std::optional<Enum>& value) {
  const auto check = [parse, names](const std::string& name) {
    return parse(name) ? "" : "\"" + name + "\" is none of " + names;
  };
  command
      ->add_option_function<std::string>(
          flag, [parse, &value](const std::string& name) { value = parse(name); },
          names + "; where the file does not say")
      ->check(check);
}

// What a checkpoint may not say itself.
void AddLoadFlags(CLI::App* command, LoadOptions& load) {
  const std::map<std::string, WeightChoice> weights = {{"model", WeightChoice::kModel}, {"ema", WeightChoice::kEma}};
  command
      ->add_option_function<std::string>(
          "--weights",
          [weights, &load](const std::string& name) { load.weights = weights.at(CLI::detail::to_lower(name)); },
          "model|ema: which, where the file has both")
      ->check(CLI::IsMember(weights, CLI::ignore_case).description(""));
  AddArchitectureFlag(command, "--mask-type", "lit|d|s|softmax, or as checkpoints spell it", ParseVariant,
                      load.variant);
  AddArchitectureFlag(command, "--order", "normal|s", ParsePatchOrder, load.order);
  AddArchitectureFlag(command, "--pooling", "mean|cls|pooler|max|last|none", ParsePooling, load.pooling);
  command
      ->add_option_function<int64_t>(
          "--heads", [&load](int64_t heads) { load.heads = heads; }, "Where the file does not say")
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()));
  command->add_flag("--allow-unused", load.allow_unused, "Drop tensors that the architecture does not use");
}

// CLI::Range lets "nan" pass.
std::string CheckSeconds(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return value >= 0 && value <= 1e6 ? "" : text + " is not from 0 to 1000000";
}

std::string CheckSizes(const std::string& text) {
  const auto mix = bench::ParseSizeMix(text);
  return mix.ok() ? "" : std::string(mix.status().message());
}

std::string CheckRate(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return value >= 0.001 && value <= 1e6 ? "" : text + " is not from 0.001 to 1000000";
}

// `lion bench --local`, whose own flags mean nothing without it.
void AddLocalFlags(CLI::App* command, CLI::Option_group* load, bench::LocalFlags& flags) {
  CLI::Option* local = load->add_option("--local", flags.model, "No server: the forward pass of a checkpoint, here");
  CLI::Option_group* group = command->add_option_group("With --local");
  group->needs(local);
  group->add_option("--lengths", flags.lengths, "Texts of so many tokens; unset: 32,128,512,4096")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'000'000));
  group->add_option("--batches", flags.batches, "Inputs at a time; unset: 1,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 10'000));
  group->add_option("--seconds", flags.seconds, "About as long for each row")
      ->check(CheckSeconds)
      ->capture_default_str();
  group->add_option("--threads", flags.engine.threads, "0: the processors this process may use")
      ->check(CLI::Range(0, 1024));
  const std::map<std::string, ComputeType> types = {
      {"auto", ComputeType::kAuto}, {"float32", ComputeType::kFloat32}, {"bfloat16", ComputeType::kBFloat16}};
  group
      ->add_option_function<std::string>(
          "--compute-type", [types, &flags](const std::string& name) { flags.engine.compute_type = types.at(name); },
          "Of matrix products; auto: bfloat16 where the processor is fast at it")
      ->check(CLI::IsMember(types).description("auto|float32|bfloat16"));
  AddLoadFlags(group, flags.load);
}

void AddBenchFlags(CLI::App* command, bench::BenchFlags& flags, bench::LocalFlags& local) {
  AddServerFlags(command, flags.server, 60'000);
  command->add_option("--model", flags.model, "Name of the model; not needed where the server has one");
  CLI::Option_group* load = command->add_option_group("Load", "One of the three");
  load->require_option(1);
  load->add_option("--rate", flags.rate, "Open loop: calls a second, sent when due whatever becomes of those before")
      ->check(CheckRate);
  load->add_option("--concurrency", flags.concurrency, "Closed loop: calls in flight, each followed by the next")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}));
  AddLocalFlags(command, load, local);
  command
      ->add_option_function<std::string>(
          "--arrivals", [&flags](const std::string& name) { flags.poisson = name == "poisson"; },
          "Of an open loop: poisson, as callers who know nothing of each other come, or constant")
      ->check(CLI::IsMember({"poisson", "constant"}))
      ->default_str("poisson");
  command
      ->add_option("--max-in-flight", flags.max_in_flight,
                   "Of an open loop: a call that is due while so many are unanswered counts as not sent")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  CLI::Option* duration = command->add_option("--duration-s", flags.duration_s, "Seconds, after the warm-up");
  duration->check(CheckSeconds)->capture_default_str();
  command->add_option("--requests", flags.requests, "Calls after the warm-up, instead of a duration")
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()))
      ->excludes(duration);
  command->add_option("--warm-up-s", flags.warm_up_s, "Seconds of the same load before, which are not counted")
      ->check(CheckSeconds)
      ->capture_default_str();
  command->add_option("--connections", flags.connections, "Connections that the calls take in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--call", [&flags](const std::string& name) { flags.call = bench::CallKinds().at(name); },
          "What is asked for")
      ->check(CLI::IsMember(bench::CallKinds()))
      ->default_str("embed");
  command
      ->add_option(
          "--sizes", flags.sizes,
          "Images as SIDE or WIDTHxHEIGHT with weights, as in 224:8,1024x768:2; unset: as the model was trained")
      ->check(CheckSizes);
  command->add_option("--inputs-per-call", flags.inputs_per_call, "Images in a call, all of one size")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--format", [&flags](const std::string& name) { flags.format = bench::ImageFormats().at(name); },
          "How images are sent; pixels: nothing to decode")
      ->check(CLI::IsMember(bench::ImageFormats()))
      ->default_str("pixels");
  command
      ->add_option_function<std::string>(
          "--resize", [&flags](const std::string& name) { flags.resize = Resizes().at(name); },
          "How the server fits encoded images; none: the sizes are what the model sees")
      ->check(CLI::IsMember(Resizes()))
      ->default_str("none");
  command->add_option("--priority", flags.priority, "Of the calls, 0 to 9; higher runs sooner")
      ->check(CLI::Range(uint32_t{0}, uint32_t{9}))
      ->capture_default_str();
  command->add_option("--seed", flags.seed, "Of arrivals, sizes and images")->capture_default_str();
  command->add_option("--json", flags.json,
                      "Report for programs, to a file; -: on standard output instead of the text");
}

// Usage errors and --help, which come as exceptions.
int ExitEarly(CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  if (error.get_exit_code() != 0 && app.get_subcommands().empty()) {
    std::cerr << "lion: " << (unknown.empty() ? "no command is given" : "\"" + unknown[0] + "\" is no command")
              << "; there are:";
    for (const CLI::App* command : app.get_subcommands(nullptr)) std::cerr << " " << command->get_name();
    std::cerr << "\nRun with --help for more information.\n";
    return kUsageError;
  }
  if (app.exit(error) != 0) return kUsageError;
  if (std::cout.flush()) return 0;
  std::cerr << "lion: cannot write standard output\n";
  return 1;
}

// The exit status of the command that was given.
int Main(int argc, char** argv) {
  CLI::App app("Client of the LION inference server.", "lion");
  app.set_version_flag("--version", "lion " LION_VERSION);
  app.require_subcommand(1);
  int exit_status = 0;

  InputCommands inputs;
  AddInputCommands(app, inputs, exit_status);

  ServerFlags models;
  bool models_json = false;
  CLI::App* command = app.add_subcommand("models", "List the server's models");
  AddServerFlags(command, models, 10'000);
  command->add_flag("--json", models_json, "One JSON object per model");
  command->callback([&] { exit_status = RunModels(models, models_json); });

  ServerFlags health;
  double wait_s = 0;
  command = app.add_subcommand("health", "Ask whether the server is ready: exit status 0 when it is SERVING");
  AddServerFlags(command, health, 10'000);
  command->add_option("--wait", wait_s, "Seconds to go on asking until it is")->check(CheckSeconds);
  command->callback(
      [&] { exit_status = RunHealth(health, std::chrono::milliseconds(static_cast<int64_t>(1000 * wait_s))); });

  std::string checkpoint;
  LoadOptions load;
  command = app.add_subcommand("inspect", "Report what a checkpoint holds, without a server");
  command->add_option("checkpoint", checkpoint, "Checkpoint file or folder")->required();
  AddLoadFlags(command, load);
  command->callback([&] { exit_status = RunInspect(checkpoint, load); });

  bench::BenchFlags load_test;
  bench::LocalFlags local;
  command = app.add_subcommand(
      "bench",
      "Load a server with synthetic images, and measure how it bears it; or (--local) measure a checkpoint here");
  AddBenchFlags(command, load_test, local);
  command->callback([&] {
    local.sizes = load_test.sizes;
    local.json = load_test.json;
    exit_status = local.model.empty() ? bench::RunBench(load_test) : bench::RunLocalBench(local);
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ExitEarly(app, error);
  }
  return exit_status;
}

}  // namespace
}  // namespace lion

int main(int argc, char** argv) {
  ::setenv("GRPC_VERBOSITY", "NONE", 0);  // what fails is said once, by the command
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows past the limit (ulimit -f) is then an error like a full disk
  return lion::Main(argc, argv);
}
