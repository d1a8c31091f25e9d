#include "server/start_up.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/resources.h"
#include "server/describe_started.h"
#include "server/log.h"
#include "server/tokenizer/tokenizer.h"
#include "server/utf8.h"

namespace lion {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;
// What an engine takes by itself when it is not told: see Engine::Create.
constexpr int64_t kLeastTokens = 1024;
constexpr int64_t kMostTokens = 131'072;

std::string DefaultName(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::path clean = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  if (std::filesystem::is_directory(clean, ignored)) return clean.filename().string();
  const std::string stem = clean.stem().string();
  const bool says_nothing = stem == "checkpoint" || stem == "model" || stem == "pytorch_model";
  return says_nothing ? clean.parent_path().filename().string() : stem;
}

// What `models` engines of one process may take of the memory, each: together the quarter that a single one would.
int64_t ShareBytes(size_t models) { return MemoryLimitBytes() / 4 / static_cast<int64_t>(models); }

// The largest batch for that share; an engine of the least size tells what a token costs.
absl::StatusOr<int64_t> TokensOfShare(const LoadedModel& loaded, EngineOptions options, size_t models) {
  options.max_batch_tokens = kLeastTokens;
  absl::StatusOr<std::unique_ptr<Engine>> probe = Engine::Create(loaded, options);
  if (!probe.ok()) return probe.status();
  return std::clamp(ShareBytes(models) / std::max<int64_t>(1, (*probe)->bytes_per_token()), kLeastTokens, kMostTokens);
}

// More than a token takes in any engine, so that there is no need to measure where memory is plenty.
int64_t GenerousBytesPerToken(const ModelConfig& config, const EngineOptions& options) {
  const int64_t threads = options.threads > 0 ? options.threads : CpuLimit();
  return 64 * config.width + 32 * threads * (config.head_width() + 16) + 4096;
}

// The engine's largest batch; 0: the engine decides. Only --max-input-tokens may ask for more than the share:
// --max-batch-tokens gets what there is.
absl::StatusOr<int64_t> LargestBatch(const LoadedModel& loaded, const StartUpOptions& options, size_t models) {
  const int64_t input_tokens = options.service.max_input_tokens;
  const int64_t batch_tokens = options.service.max_batch_tokens;
  if (input_tokens == 0)
    return models == 1 ? absl::StatusOr<int64_t>(0) : TokensOfShare(loaded, options.engine, models);
  if (batch_tokens <= input_tokens) return input_tokens;
  const int64_t certain_tokens = ShareBytes(models) / GenerousBytesPerToken(loaded.config, options.engine);
  if (batch_tokens <= std::min(certain_tokens, kMostTokens)) return batch_tokens;
  absl::StatusOr<int64_t> share = TokensOfShare(loaded, options.engine, models);
  if (!share.ok()) return share.status();
  return std::max(input_tokens, std::min(batch_tokens, *share));
}

// The tokenizer beside a text model's weights; null, after a warning, where there is none.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const ModelSpec& spec, const ModelConfig& config) {
  if (config.modality != Modality::kText) return nullptr;
  const std::filesystem::path path(spec.path);
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
  if (folder.empty()) folder = ".";
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(folder.string());
  if (absl::IsNotFound(tokenizer.status())) {
    LogWarning(
        absl::StrCat("model ", spec.name, ": ", tokenizer.status().message(), ": texts are refused, token ids work"));
    return nullptr;
  }
  if (tokenizer.ok() && (*tokenizer)->vocabulary() > config.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer in ", folder.string(), " has ",
                                                   (*tokenizer)->vocabulary(), " tokens, the model's vocabulary ",
                                                   config.vocabulary, ": they are not of one model"));
  }
  return tokenizer;
}

// RESOURCE_EXHAUSTED: file, weights and activations of the model would not fit into what was available before.
absl::Status CheckMemoryBeside(const LoadedModel& loaded, const StartUpOptions& options, const ModelStart& start,
                               int64_t largest_batch) {
  const int64_t weights = loaded.parameters * static_cast<int64_t>(sizeof(float));
  const int64_t tokens = largest_batch > 0 ? largest_batch : kMostTokens;
  int64_t activations = tokens * GenerousBytesPerToken(loaded.config, options.engine);
  if (largest_batch == 0) activations = std::min(activations, ShareBytes(start.models));
  const int64_t available = start.available_bytes - loaded.file_bytes;
  if (weights + activations <= available) return absl::OkStatus();
  EngineOptions probe_options = options.engine;
  probe_options.max_batch_tokens = kLeastTokens;
  if (2 * weights <= available) {
    absl::StatusOr<std::unique_ptr<Engine>> probe = Engine::Create(loaded, probe_options);
    if (!probe.ok()) return probe.status();
    activations = std::min(activations, tokens * (*probe)->bytes_per_token());
    if (weights + activations <= available) return absl::OkStatus();
  }
  constexpr int64_t kMiB = int64_t{1} << 20;
  return absl::ResourceExhaustedError(
      absl::StrCat("it takes ", weights / kMiB, " MiB for weights and ", activations / kMiB, " MiB for a batch of ",
                   tokens, " tokens beside what serves, and ", std::max<int64_t>(0, available) / kMiB,
                   " MiB are free: lower --max-input-tokens or raise the memory"));
}

}  // namespace

absl::StatusOr<std::vector<ModelSpec>> ParseModelSpecs(const std::vector<std::string>& specs) {
  std::vector<ModelSpec> parsed;
  std::set<std::string> names;
  for (const std::string& text : specs) {
    ModelSpec spec;
    if (text.empty()) return absl::InvalidArgumentError("--model is empty: want [NAME=]PATH");
    const size_t equals = text.find('=');
    // A '=' behind a '/' belongs to the path.
    if (equals != std::string::npos && text.find('/') > equals) {
      spec.name = text.substr(0, equals);
      spec.path = text.substr(equals + 1);
    } else {
      spec.path = text;
      spec.name = DefaultName(text);
    }
    if (spec.name.empty() || spec.path.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--model '", text, "': want [NAME=]PATH, neither of them empty"));
    }
    if (!IsPrintableUtf8(spec.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model name '", absl::CHexEscape(spec.name), "' ",
                       "has control characters or is not UTF-8: name it with --model NAME=PATH"));
    }
    if (!names.insert(spec.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two models are named '", spec.name, "': name them with --model NAME=PATH"));
    }
    parsed.push_back(std::move(spec));
  }
  return parsed;
}

StartUpFailure StartModel(const ModelStart& start, const StartUpOptions& options, const SharedResources& shared,
                          const std::function<void(const std::string& name, const absl::Status&)>& on_fault,
                          std::unique_ptr<ModelService>* out) {
  using Kind = StartUpFailure::Kind;
  const ModelSpec& spec = start.spec;
  const auto failure = [&spec](Kind kind, const absl::Status& status) {
    return StartUpFailure{kind, absl::Status(status.code(), absl::StrCat("model ", spec.name, ": ", status.message()))};
  };
  const auto cancelled = [&start] { return start.cancelled != nullptr && start.cancelled->load(); };
  const auto cancellation = [&failure] { return failure(Kind::kModel, absl::CancelledError("given up")); };
  LogInfo(absl::StrCat("loading ", spec.name, " from ", spec.path));
  LoadOptions load = options.load;
  load.copy_files = start.beside;
  absl::StatusOr<LoadedModel> loaded = LoadModel(spec.path, load);
  if (!loaded.ok()) return failure(Kind::kModel, loaded.status());
  for (const std::string& warning : loaded->warnings) LogWarning(absl::StrCat("model ", spec.name, ": ", warning));
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(spec, loaded->config);
  if (!tokenizer.ok()) return failure(Kind::kModel, tokenizer.status());

  if (cancelled()) return cancellation();
  absl::StatusOr<int64_t> largest = LargestBatch(*loaded, options, start.models);
  if (!largest.ok()) return failure(Kind::kDevice, largest.status());
  if (start.beside) {
    if (absl::Status status = CheckMemoryBeside(*loaded, options, start, *largest); !status.ok()) {
      return failure(Kind::kDevice, status);
    }
  }
  EngineOptions engine_options = options.engine;
  engine_options.max_batch_tokens = *largest;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(*loaded, engine_options);
  if (absl::IsResourceExhausted(engine.status()) && options.service.max_input_tokens > 0) {
    return failure(Kind::kDevice,
                   absl::ResourceExhaustedError(absl::StrCat("--max-input-tokens ", options.service.max_input_tokens,
                                                             " is too large: ", engine.status().message())));
  }
  if (!engine.ok()) return failure(Kind::kDevice, engine.status());

  if (cancelled()) return cancellation();
  ModelInfo info = {
      .name = spec.name, .version = start.version, .parameters = loaded->parameters, .weights = loaded->file};
  if (shared.metrics != nullptr) info.metrics = &shared.metrics->ForModel(info.name, info.version);
  if (!loaded->weights.empty()) absl::StrAppend(&info.weights, " (", loaded->weights, ")");
  absl::StatusOr<std::unique_ptr<ModelService>> service =
      ModelService::Create(std::move(info), *std::move(engine), *std::move(tokenizer), options.service, shared,
                           [name = spec.name, on_fault](const absl::Status& status) { on_fault(name, status); });
  if (!service.ok()) return failure(Kind::kDevice, service.status());
  LogInfo(DescribeStarted(spec.name, *loaded, **service));
  if (const int64_t batch_tokens = (*service)->options().max_batch_tokens;
      batch_tokens < options.service.max_batch_tokens) {
    LogWarning(absl::StrCat("model ", spec.name, ": --max-batch-tokens ", options.service.max_batch_tokens,
                            " is more than its share of the memory: batches have up to ", batch_tokens, " tokens"));
  }
  const int64_t budget_ns = kMillisecondNs * (start.beside ? options.warm_up_beside_ms : options.warm_up_ms);
  const int64_t batch_ns = start.beside ? kMillisecondNs * options.warm_up_batch_beside_ms : budget_ns;
  if (absl::Status status = (*service)->WarmUp(budget_ns, batch_ns, LogInfo, LogWarning); !status.ok()) {
    return failure(Kind::kDevice, status);
  }
  *out = *std::move(service);
  return {};
}

StartUpFailure StartModels(const std::vector<ModelSpec>& specs, const StartUpOptions& options,
                           const SharedResources& shared,
                           const std::function<void(const std::string& name, const absl::Status&)>& on_fault,
                           std::vector<std::unique_ptr<ModelService>>* models) {
  for (const ModelSpec& spec : specs) {
    std::unique_ptr<ModelService> model;
    const ModelStart start = {.spec = spec, .models = specs.size()};
    if (StartUpFailure failure = StartModel(start, options, shared, on_fault, &model);
        failure.kind != StartUpFailure::Kind::kNone) {
      return failure;
    }
    models->push_back(std::move(model));
  }
  return {};
}

}  // namespace lion
