#include "client/cli/bench/local.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/bench/report.h"
#include "client/cli/bench/size_mix.h"
#include "client/cli/connection.h"
#include "client/cli/console.h"
#include "engine/speed.h"

namespace lion::bench {
namespace {

constexpr char kUsualSizes[] = "224,512,1024";
constexpr int64_t kUsualLengths[] = {32, 128, 512, 4096};
constexpr int kRepeats = 25;

// One kind of input, which a batch holds several times.
struct Work {
  std::string name;
  int64_t tokens = 0;
  SizeShare size;  // of an image
};

absl::StatusOr<std::vector<Work>> Texts(const LocalFlags& flags, const ModelConfig& config) {
  if (!flags.sizes.empty())
    return absl::InvalidArgumentError("--sizes are of images, but this is a text model: --lengths");
  std::vector<int64_t> lengths = flags.lengths;
  if (lengths.empty()) {
    for (const int64_t length : kUsualLengths) {
      if (config.max_positions == 0 || length <= config.max_positions) lengths.push_back(length);
    }
  }
  if (lengths.empty()) lengths.push_back(config.max_positions);
  std::vector<Work> work;
  for (const int64_t length : lengths) {
    if (config.max_positions > 0 && length > config.max_positions) {
      return absl::InvalidArgumentError(
          absl::StrCat("--lengths ", length, ": the model has ", config.max_positions, " positions"));
    }
    work.push_back({.name = absl::StrCat(length, length == 1 ? " token" : " tokens"), .tokens = length});
  }
  return work;
}

absl::StatusOr<std::vector<Work>> Images(const LocalFlags& flags, const ModelConfig& config) {
  if (!flags.lengths.empty()) {
    return absl::InvalidArgumentError("--lengths are of texts, but this is a vision model: --sizes");
  }
  absl::StatusOr<std::vector<SizeShare>> sizes = ParseSizeMix(flags.sizes.empty() ? kUsualSizes : flags.sizes);
  if (!sizes.ok()) return absl::InvalidArgumentError(absl::StrCat("--sizes ", sizes.status().message()));
  std::vector<Work> work;
  for (const SizeShare& size : *sizes) {
    if (size.width < config.patch_size || size.height < config.patch_size) {
      return absl::InvalidArgumentError(absl::StrCat("--sizes ", SizeName(size), ": smaller than one patch of ",
                                                     config.patch_size, "x", config.patch_size));
    }
    work.push_back({.name = SizeName(size),
                    .tokens = 1 + (size.width / config.patch_size) * (size.height / config.patch_size),
                    .size = size});
  }
  return work;
}

// One input, which the batch holds several times: it costs what different ones of its size do. Its own tokens or pixels
// differ from each other.
class Inputs {
 public:
  Inputs(const Work& work, int64_t batch, const ModelConfig& config) {
    Request request;
    request.embedding = true;
    request.pooling = config.pooling;
    if (config.modality == Modality::kText) {
      ids_.resize(static_cast<size_t>(work.tokens));
      for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<int32_t>((i * 7919) % config.vocabulary);
      request.text.ids = ids_;
    } else {
      pixels_.resize(static_cast<size_t>(work.size.width * work.size.height * 3));
      for (size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = static_cast<uint8_t>((i * (i >> 9)) % 251);
      request.image = {PixelLayout::kInterleavedUint8, pixels_.data(), work.size.height, work.size.width};
    }
    requests_.assign(static_cast<size_t>(batch), request);
  }
  const std::vector<Request>& requests() const { return requests_; }

 private:
  std::vector<int32_t> ids_;
  std::vector<uint8_t> pixels_;
  std::vector<Request> requests_;
};

}  // namespace

absl::StatusOr<LocalReport> MeasureLocal(const LocalFlags& flags) {
  absl::StatusOr<LoadedModel> model = LoadModel(flags.model, flags.load);
  if (!model.ok()) return model.status();
  const ModelConfig& config = model->config;
  absl::StatusOr<std::vector<Work>> work =
      config.modality == Modality::kText ? Texts(flags, config) : Images(flags, config);
  if (!work.ok()) return work.status();
  EngineOptions options = flags.engine;
  options.max_batch_tokens = 0;
  for (const Work& item : *work) {
    options.max_batch_tokens = std::max(options.max_batch_tokens, item.tokens * std::ranges::max(flags.batches));
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(*model, options);
  if (!engine.ok()) return engine.status();

  LocalReport report = {.model = flags.model,
                        .variant = std::string(VariantName(config.variant)),
                        .isa = (*engine)->isa(),
                        .compute_type = std::string(ComputeTypeName((*engine)->compute_type())),
                        .threads = (*engine)->threads(),
                        .bytes_per_token = (*engine)->bytes_per_token(),
                        .weight_bytes = (*engine)->weight_bytes()};
  for (const Work& item : *work) {
    for (const int64_t batch : flags.batches) {
      const Inputs inputs(item, batch, config);
      absl::StatusOr<Speed> speed =
          MeasureSpeed(**engine, inputs.requests(), {.repeats = kRepeats, .budget_s = flags.seconds});
      if (!speed.ok()) return speed.status();
      report.rows.push_back({.input = item.name,
                             .batch = batch,
                             .tokens = speed->tokens,
                             .forward_ms = 1e3 * speed->forward_s,
                             .limit_ms = 1e3 * speed->limit_s,
                             .tokens_per_s = static_cast<double>(speed->tokens) / speed->forward_s,
                             .repeats = speed->repeats});
    }
  }
  return report;
}

int RunLocalBench(const LocalFlags& flags) {
  const absl::StatusOr<LocalReport> report = MeasureLocal(flags);
  if (!report.ok()) return Fail(std::string(report.status().message()));
  int exit_status = 0;
  if (flags.json != "-") exit_status = Print(LocalText(*report));
  if (!flags.json.empty()) {
    const absl::Status written = WriteReport(flags.json == "-" ? "" : flags.json, LocalJson(*report));
    if (!written.ok()) exit_status = Fail(std::string(written.message()));
  }
  return exit_status;
}

}  // namespace lion::bench
