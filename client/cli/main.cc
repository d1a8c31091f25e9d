// The `lion` command line: flags are bound here, and nowhere else.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "client/cli/commands.h"
#include "client/cli/names.h"

namespace lion {
namespace {

constexpr int kUsageError = 2;
constexpr int64_t kMaxTimeoutMs = 1'000'000'000'000;  // 31 years: a deadline that a clock in nanoseconds can hold

void AddServerFlags(CLI::App* command, ServerFlags& flags, int64_t timeout_ms) {
  flags.timeout_ms = timeout_ms;
  command->add_option("--server", flags.address, "Address of the server, host:port")
      ->envname("LION_SERVER")
      ->capture_default_str();
  command->add_option("--timeout-ms", flags.timeout_ms, "Deadline of each call in milliseconds; 0: none")
      ->check(CLI::Range(int64_t{0}, kMaxTimeoutMs))
      ->capture_default_str();
}

// Image commands wait long by default: one call may hold 16 images of a large model on a small machine.
void AddImageFlags(CLI::App* command, ImageFlags& flags) {
  AddServerFlags(command, flags.server, 300'000);
  v1::ImageOptions& image = flags.call.image;
  command->add_option("--model", flags.call.model, "Name of the model; not needed where the server has one");
  command
      ->add_option_function<std::string>(
          "--resize", [&image](const std::string& name) { image.set_resize(Resizes().at(name)); },
          "How images are fitted; unset: as the model says")
      ->check(CLI::IsMember(Resizes()));
  command
      ->add_option_function<uint32_t>(
          "--size", [&image](uint32_t size) { image.set_size(size); }, "Pixels to resize to; unset: as the model says")
      ->check(CLI::Range(uint32_t{1}, std::numeric_limits<uint32_t>::max()));
  command->add_flag_callback(
      "--no-exif", [&image] { image.set_apply_exif_orientation(false); }, "Leave images as stored, not turned upright");
  command->add_flag_callback(
      "--allow-truncated", [&image] { image.set_allow_truncated(true); }, "Decode cut-off files as far as they go");
}

void AddEmbeddingFlags(CLI::App* command, ImageFlags& flags, bool with_none) {
  std::map<std::string, v1::Pooling> poolings = ImagePoolings();
  if (!with_none) poolings.erase("none");
  command
      ->add_option_function<std::string>(
          "--pooling", [&flags](const std::string& name) { flags.call.pooling = ImagePoolings().at(name); },
          "How token vectors become one; unset: as the model says")
      ->check(CLI::IsMember(poolings));
}

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

// CLI::Range lets "nan" pass.
std::string CheckSeconds(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return value >= 0 && value <= 1e6 ? "" : text + " is not from 0 to 1000000";
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

constexpr char kPathsHelp[] =
    "Image files, folders (searched to the bottom), patterns, or - for a list on standard input";

// The exit status of the command that was given.
int Main(int argc, char** argv) {
  CLI::App app("Client of the LION inference server.", "lion");
  app.set_version_flag("--version", "lion " LION_VERSION);
  app.require_subcommand(1);
  int exit_status = 0;

  ImageFlags classify;
  CLI::App* command = app.add_subcommand("classify", "Name what images show");
  command->add_option("images", classify.arguments, kPathsHelp)->required();
  AddImageFlags(command, classify);
  command->add_option("--top-k", classify.call.top_k, "Classes per image; 0: all")->capture_default_str();
  command->add_flag("--raw-scores", classify.call.raw_scores, "Logits instead of probabilities");
  command->add_flag("--json", classify.json, "One JSON object per image");
  command->callback([&] { exit_status = RunClassify(classify); });

  ImageFlags embed;
  std::string embed_output;
  command = app.add_subcommand("embed", "Turn images into vectors");
  command->add_option("images", embed.arguments, kPathsHelp)->required();
  AddImageFlags(command, embed);
  AddEmbeddingFlags(command, embed, /*with_none=*/true);
  command->add_flag_callback(
      "--normalize", [&] { embed.call.normalize = true; }, "Scale each vector to length 1; unset: as the model says");
  command->add_option("--dimensions", embed.call.dimensions, "Keep the first so many; 0: all")->capture_default_str();
  command->add_option("--output", embed_output, "FILE.npy or FILE.jsonl; unset: JSON lines on standard output");
  command->callback([&] { exit_status = RunEmbed(embed, embed_output); });

  ImageFlags similar;
  command = app.add_subcommand("similar", "Compare two images: the cosine of their embeddings");
  command->add_option("images", similar.arguments, "Two image files")->required()->expected(2);
  AddImageFlags(command, similar);
  AddEmbeddingFlags(command, similar, /*with_none=*/false);
  command->add_flag("--json", similar.json, "A JSON object instead of the number");
  command->callback([&] { exit_status = RunSimilar(similar); });

  ServerFlags models;
  bool models_json = false;
  command = app.add_subcommand("models", "List the server's models");
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
  const std::map<std::string, WeightChoice> weights = {{"model", WeightChoice::kModel}, {"ema", WeightChoice::kEma}};
  command
      ->add_option_function<std::string>(
          "--weights", [&](const std::string& name) { load.weights = weights.at(CLI::detail::to_lower(name)); },
          "model|ema: which, where the file has both")
      ->check(CLI::IsMember(weights, CLI::ignore_case).description(""));
  AddArchitectureFlag(command, "--mask-type", "lit|d|s|softmax, or as checkpoints spell it", ParseVariant,
                      load.variant);
  AddArchitectureFlag(command, "--order", "normal|s", ParsePatchOrder, load.order);
  AddArchitectureFlag(command, "--pooling", "mean|cls|pooler|max|last|none", ParsePooling, load.pooling);
  command
      ->add_option_function<int64_t>(
          "--heads", [&](int64_t heads) { load.heads = heads; }, "Where the file does not say")
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()));
  command->add_flag("--allow-unused", load.allow_unused, "Drop tensors that the architecture does not use");
  command->callback([&] { exit_status = RunInspect(checkpoint, load); });

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
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows past the limit (ulimit -f) is then an error like a full disk
  return lion::Main(argc, argv);
}
