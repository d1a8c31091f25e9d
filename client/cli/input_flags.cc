#include "client/cli/input_flags.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "client/cli/names.h"

namespace lion {
namespace {

constexpr int64_t kMaxTimeoutMs = 1'000'000'000'000;  // 31 years: a deadline that a clock in nanoseconds can hold
constexpr auto kMaxUint32 = std::numeric_limits<uint32_t>::max();

constexpr char kPathsHelp[] =
    "Image files, folders (searched to the bottom), patterns, or - for a list on standard input";
constexpr char kWhatToSend[] = "Images, --text or --file";

// Each time one value. CLI11 would split "[MASK]" and swallow what follows if it knew that a list is meant.
void AddTexts(CLI::App* command, const std::string& flag, const std::string& type, const std::string& help,
              std::vector<std::string>& values) {
  command
      ->add_option(flag, CLI::callback_t([&values](const CLI::results_t& given) {
                     values = given;
                     return true;
                   }),
                   help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name(type);
}

// Such commands wait long by default: one call may hold 16 images of a large model on a small machine.
void AddCallFlags(CLI::App* command, InputFlags& flags) {
  AddServerFlags(command, flags.server, 300'000);
  command->add_option("--model", flags.call.model, "Name of the model; not needed where the server has one");
}

void AddTextFlag(CLI::App* command, InputFlags& flags) {
  AddTexts(command, "--text", "TEXT", "A text; may be given several times", flags.texts);
}

void AddTextFlags(CLI::App* command, InputFlags& flags) {
  AddTextFlag(command, flags);
  AddTexts(command, "--file", "FILE",
           "A file of texts in UTF-8, one a line; -: standard input; may be given several times", flags.text_files);
  command->add_flag("--pairs", flags.pairs, "Each text is two, with a tab between them");
  command->add_flag("--skip-empty", flags.skip_empty, "Pass over empty lines of files, which otherwise are errors");
}

void AddTruncationFlag(CLI::App* command, InputFlags& flags) {
  command
      ->add_option_function<std::string>(
          "--truncation", [&flags](const std::string& name) { flags.call.truncation = Truncations().at(name); },
          "Of texts that are too long: refuse them, or cut their end or start; unset: as the server says")
      ->check(CLI::IsMember(Truncations()));
}

void AddImageFlags(CLI::App* command, InputFlags& flags) {
  v1::ImageOptions& image = flags.call.image;
  command
      ->add_option_function<std::string>(
          "--resize", [&image](const std::string& name) { image.set_resize(Resizes().at(name)); },
          "How images are fitted; unset: as the model says")
      ->check(CLI::IsMember(Resizes()));
  command
      ->add_option_function<uint32_t>(
          "--size", [&image](uint32_t size) { image.set_size(size); }, "Pixels to resize to; unset: as the model says")
      ->check(CLI::Range(uint32_t{1}, kMaxUint32));
  command->add_flag_callback(
      "--no-exif", [&image] { image.set_apply_exif_orientation(false); }, "Leave images as stored, not turned upright");
  command->add_flag_callback(
      "--allow-truncated", [&image] { image.set_allow_truncated(true); }, "Decode cut-off files as far as they go");
}

void AddPoolingFlag(CLI::App* command, InputFlags& flags, bool with_none) {
  std::map<std::string, v1::Pooling> poolings = Poolings();
  if (!with_none) poolings.erase("none");
  command
      ->add_option_function<std::string>(
          "--pooling", [&flags](const std::string& name) { flags.call.pooling = Poolings().at(name); },
          "How token vectors become one; unset: as the model says")
      ->check(CLI::IsMember(poolings));
}

// Usage errors that no single flag shows.
void CheckInputs(const InputFlags& flags, const char* what) {
  if (flags.images.empty() && flags.texts.empty() && flags.text_files.empty()) throw CLI::RequiredError(what);
  if (std::count(flags.images.begin(), flags.images.end(), "-") +
          std::count(flags.text_files.begin(), flags.text_files.end(), "-") >
      1) {
    throw CLI::ValidationError("-", "standard input can be read only once");
  }
}

void AddClassify(CLI::App& app, InputFlags& flags, int& exit_status) {
  CLI::App* command = app.add_subcommand("classify", "Name what images show, or what texts are");
  command->add_option("images", flags.images, kPathsHelp);
  AddTextFlags(command, flags);
  AddCallFlags(command, flags);
  AddTruncationFlag(command, flags);
  AddImageFlags(command, flags);
  command->add_option("--top-k", flags.call.top_k, "Classes per input; 0: all")->capture_default_str();
  command->add_flag("--raw-scores", flags.call.raw_scores, "Logits instead of probabilities");
  command->add_flag("--json", flags.json, "One JSON object per input");
  command->callback([&flags, &exit_status] {
    CheckInputs(flags, kWhatToSend);
    exit_status = RunClassify(flags);
  });
}

void AddEmbed(CLI::App& app, InputFlags& flags, std::string& output, int& exit_status) {
  CLI::App* command = app.add_subcommand("embed", "Turn images or texts into vectors");
  command->add_option("images", flags.images, kPathsHelp);
  AddTextFlags(command, flags);
  AddCallFlags(command, flags);
  AddTruncationFlag(command, flags);
  AddImageFlags(command, flags);
  AddPoolingFlag(command, flags, /*with_none=*/true);
  command->add_flag_callback(
      "--normalize", [&flags] { flags.call.normalize = true; },
      "Scale each vector to length 1; unset: as the model says");
  command->add_option("--dimensions", flags.call.dimensions, "Keep the first so many; 0: all")->capture_default_str();
  command->add_option("--output", output, "FILE.npy or FILE.jsonl; unset: JSON lines on standard output");
  command->callback([&flags, &output, &exit_status] {
    CheckInputs(flags, kWhatToSend);
    exit_status = RunEmbed(flags, output);
  });
}

void AddFillMask(CLI::App& app, InputFlags& flags, int& exit_status) {
  CLI::App* command = app.add_subcommand("fill-mask", "Guess the tokens that [MASK] stands for in texts");
  AddTextFlags(command, flags);
  AddCallFlags(command, flags);
  AddTruncationFlag(command, flags);
  command->add_option("--top-k", flags.call.top_k, "Tokens for each mask")
      ->check(CLI::Range(uint32_t{1}, kMaxUint32))
      ->capture_default_str();
  command->add_flag("--json", flags.json, "One JSON object per text");
  command->callback([&flags, &exit_status] {
    CheckInputs(flags, "--text or --file");
    exit_status = RunFillMask(flags);
  });
}

void AddTokenize(CLI::App& app, InputFlags& flags, int& exit_status) {
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens that a model sees in texts");
  AddTextFlags(command, flags);
  AddCallFlags(command, flags);
  command->add_flag_callback(
      "--no-special-tokens", [&flags] { flags.call.special_tokens = false; }, "The texts' own tokens alone");
  command->add_flag("--json", flags.json, "One JSON object per text");
  command->callback([&flags, &exit_status] {
    CheckInputs(flags, "--text or --file");
    exit_status = RunTokenize(flags);
  });
}

void AddSimilar(CLI::App& app, InputFlags& flags, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("similar", "Compare images or texts: the cosine of two embeddings, or a table of more");
  command->add_option("images", flags.images, "Image files");
  AddTextFlag(command, flags);
  AddCallFlags(command, flags);
  AddTruncationFlag(command, flags);
  AddImageFlags(command, flags);
  AddPoolingFlag(command, flags, /*with_none=*/false);
  command->add_flag("--json", flags.json, "One JSON object per two instead");
  command->callback([&flags, &exit_status] {
    if (flags.images.size() + flags.texts.size() < 2) throw CLI::RequiredError("Two or more images or --text");
    exit_status = RunSimilar(flags);
  });
}

}  // namespace

void AddServerFlags(CLI::App* command, ServerFlags& flags, int64_t timeout_ms) {
  flags.timeout_ms = timeout_ms;
  command->add_option("--server", flags.address, "Address of the server, host:port or unix:PATH")
      ->envname("LION_SERVER")
      ->capture_default_str();
  command->add_option("--timeout-ms", flags.timeout_ms, "Deadline of each call in milliseconds; 0: none")
      ->check(CLI::Range(int64_t{0}, kMaxTimeoutMs))
      ->capture_default_str();
  CLI::Option_group* security = command->add_option_group("Security");
  security->add_flag("--tls", flags.tls, "Encrypt, and trust the system's authorities; --tls-... imply it");
  security->add_option("--tls-ca", flags.tls_ca, "PEM file of the authorities that the server's certificate is from")
      ->envname("LION_TLS_CA");
  security->add_option("--tls-cert", flags.tls_cert, "PEM file of this caller's certificate");
  security->add_option("--tls-key", flags.tls_key, "PEM file of its key");
  security->add_option("--tls-server-name", flags.tls_server_name,
                       "What the server's certificate must name; unset: the host of the address");
  security->add_option("--token-file", flags.token_file, "File with a token in its first line; unset: LION_TOKEN")
      ->envname("LION_TOKEN_FILE");
}

void AddInputCommands(CLI::App& app, InputCommands& commands, int& exit_status) {
  AddClassify(app, commands.classify, exit_status);
  AddEmbed(app, commands.embed, commands.embed_output, exit_status);
  AddFillMask(app, commands.fill_mask, exit_status);
  AddTokenize(app, commands.tokenize, exit_status);
  AddSimilar(app, commands.similar, exit_status);
}

}  // namespace lion
