// lion_runner: our side of benchmarks/peers. Loads a model and images or texts, then answers commands on its standard
// input, one line of JSON each, as peer.py does: benchmarks/peers/README.md has the protocol.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/engine.h"
#include "model_loader/model_loader.h"

namespace lion {
namespace {

constexpr int64_t kMaxSide = 16'384;

struct Flags {
  std::string model;
  std::string images;  // float32 [batch, 3, side, side], normalised
  std::string texts;   // token ids in decimal, a text a line
  int64_t side = 224;  // pixels
  int64_t batch = 1;
  std::string type = "float32";
  int threads = 0;
  double turn_ms = 0;
};

// Bytes that a line of /proc/self/status names ("VmHWM:", "VmRSS:"); 0 where the system has no such file.
int64_t StatusBytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == key && file >> kib) return kib * 1024;
  }
  return 0;
}

absl::StatusOr<std::vector<float>> ReadImages(const Flags& flags) {
  std::vector<float> pixels(static_cast<size_t>(flags.batch * 3 * flags.side * flags.side));
  const auto bytes = static_cast<std::streamsize>(pixels.size() * sizeof(float));
  std::ifstream file(flags.images, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(flags.images, ": cannot be opened"));
  file.read(reinterpret_cast<char*>(pixels.data()), bytes);
  const bool is_complete = file.gcount() == bytes;
  if (!is_complete || file.peek() != std::ifstream::traits_type::eof()) {
    return absl::InvalidArgumentError(absl::StrCat(flags.images, ": expected ", bytes, " bytes: float32 [", flags.batch,
                                                   ", 3, ", flags.side, ", ", flags.side, "], found ",
                                                   is_complete ? "more" : "fewer"));
  }
  return pixels;
}

absl::StatusOr<std::vector<std::vector<int32_t>>> ReadTexts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  std::vector<std::vector<int32_t>> texts;
  for (std::string line; std::getline(file, line);) {
    std::vector<int32_t>& ids = texts.emplace_back();
    for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      if (!absl::SimpleAtoi(word, &ids.emplace_back())) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": expected token ids, found ", word));
      }
    }
  }
  return texts;
}

// One batch, of images or of texts.
struct Batch {
  std::vector<float> pixels;
  std::vector<std::vector<int32_t>> texts;
  std::vector<Request> requests;  // into those above

  absl::Status CheckFor(const Engine& engine, int64_t side) const {
    if (texts.empty()) return engine.CountTokens(side, side).status();
    for (const Request& request : requests) {
      if (absl::Status status = engine.CheckText(request.text); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<Batch> ReadBatch(const Flags& flags, const ModelConfig& config) {
  const char* const kinds[] = {"vision", "text"};
  const bool is_text = !flags.texts.empty();
  if (is_text != (config.modality == Modality::kText)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.model, ": expected a ", kinds[is_text], " model, found a ", kinds[!is_text], " model"));
  }
  Batch batch;
  if (is_text) {
    absl::StatusOr<std::vector<std::vector<int32_t>>> texts = ReadTexts(flags.texts);
    if (!texts.ok()) return texts.status();
    batch.texts = *std::move(texts);
    for (const auto& ids : batch.texts) batch.requests.push_back({.text = {.ids = ids}, .embedding = true});
    return batch;
  }
  absl::StatusOr<std::vector<float>> pixels = ReadImages(flags);
  if (!pixels.ok()) return pixels.status();
  batch.pixels = *std::move(pixels);
  for (int64_t i = 0; i < flags.batch; ++i) {
    const float* image = batch.pixels.data() + i * 3 * flags.side * flags.side;
    batch.requests.push_back(
        {.image = {PixelLayout::kPlanarFloat32, image, flags.side, flags.side}, .embedding = true});
  }
  return batch;
}

int64_t CountTokens(const Flags& flags, const Batch& batch, const ModelConfig& config) {
  if (batch.texts.empty()) {
    const int64_t patches = flags.side / config.patch_size;
    return flags.batch * (patches * patches + 1);
  }
  int64_t tokens = 0;
  for (const auto& ids : batch.texts) tokens += static_cast<int64_t>(ids.size());
  return tokens;
}

// A loaded model, and one batch that it runs again and again.
class Runner {
 public:
  static absl::StatusOr<std::unique_ptr<Runner>> Create(const Flags& flags) {
    absl::StatusOr<LoadedModel> model = LoadModel(flags.model, {});
    if (!model.ok()) return model.status();
    absl::StatusOr<Batch> batch = ReadBatch(flags, model->config);
    if (!batch.ok()) return batch.status();
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
        *model, {.compute_type = flags.type == "float32" ? ComputeType::kFloat32 : ComputeType::kBFloat16,
                 .threads = flags.threads,
                 .max_batch_tokens = CountTokens(flags, *batch, model->config)});
    if (!engine.ok()) return engine.status();
    if (absl::Status status = batch->CheckFor(**engine, flags.side); !status.ok()) return status;
    return std::unique_ptr<Runner>(new Runner(*std::move(batch), *std::move(engine)));
  }

  const Engine& engine() const { return *engine_; }

  // Memory of the model alone: what the engine took for the largest batch is counted as memory of its runs.
  void MeasureBaseline() {
    malloc_trim(0);
    baseline_ = StatusBytes("VmRSS:") - engine_->bytes_per_token() * engine_->max_batch_tokens();
    std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM starts again at the present size
  }
  int64_t PeakBytes() const { return StatusBytes("VmHWM:") - baseline_; }

  absl::StatusOr<double> RunMs() {
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = engine_->Forward(batch_.requests, results_);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!status.ok()) return status;
    for (const Result& result : results_) {
      if (!result.status.ok()) return result.status;
    }
    return ms;
  }

  // The embeddings of the last run, float32 [batch, D].
  absl::Status Write(const std::string& path) const {
    std::ofstream file(path, std::ios::binary);
    for (const Result& result : results_) {
      file.write(reinterpret_cast<const char*>(result.embedding.data()),
                 static_cast<std::streamsize>(result.embedding.size() * sizeof(float)));
    }
    file.close();
    return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  }

 private:
  Runner(Batch batch, std::unique_ptr<Engine> engine)
      : batch_(std::move(batch)), engine_(std::move(engine)), results_(batch_.requests.size()) {}

  Batch batch_;
  std::unique_ptr<Engine> engine_;
  std::vector<Result> results_;
  int64_t baseline_ = 0;  // bytes
};

// "run": the milliseconds of as many passes as fit into turn_ms, at least one. "write PATH", "memory".
absl::StatusOr<std::string> Answer(Runner& runner, const std::string& line, double turn_ms) {
  if (line == "run") {
    std::string list;
    for (double total_ms = 0; list.empty() || total_ms < turn_ms;) {
      const absl::StatusOr<double> ms = runner.RunMs();
      if (!ms.ok()) return ms.status();
      absl::StrAppend(&list, list.empty() ? "" : ", ", *ms);
      total_ms += *ms;
    }
    return absl::StrCat("{\"ms\": [", list, "]}");
  }
  if (line == "memory") return absl::StrCat("{\"peak_bytes\": ", runner.PeakBytes(), "}");
  if (line.starts_with("write ")) {
    const absl::Status status = runner.Write(line.substr(6));
    return status.ok() ? absl::StatusOr<std::string>("{}") : status;
  }
  return absl::InvalidArgumentError(absl::StrCat("expected run, write PATH or memory, found ", line));
}

int Fail(const absl::Status& status) {
  std::cerr << "lion_runner: " << status.message() << "\n";
  return 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Runs a model on command: benchmarks/peers/README.md");
  app.add_option("model", flags.model, "checkpoint file or folder")->required();
  auto* images = app.add_option("--images", flags.images, "file: float32 [batch, 3, side, side], normalised");
  app.add_option("--texts", flags.texts, "file: token ids, a text a line; with it, --side and --batch mean nothing")
      ->excludes(images);
  app.add_option("--side", flags.side, "pixels")->check(CLI::Range(int64_t{1}, kMaxSide));
  app.add_option("--batch", flags.batch, "images a run")->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app.add_option("--type", flags.type)->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--threads", flags.threads, "0: the cgroup's quota");
  app.add_option("--turn-ms", flags.turn_ms, "passes are repeated within one run until they took this long");
  CLI11_PARSE(app, argc, argv);
  absl::StatusOr<std::unique_ptr<Runner>> runner = Runner::Create(flags);
  if (!runner.ok()) return Fail(runner.status());
  (*runner)->MeasureBaseline();
  const Engine& engine = (*runner)->engine();
  std::cout << absl::StrCat("{\"isa\": \"", engine.isa(), "\", \"threads\": ", engine.threads(), "}") << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const absl::StatusOr<std::string> answer = Answer(**runner, line, flags.turn_ms);
    if (!answer.ok()) return Fail(answer.status());
    std::cout << *answer << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace lion

int main(int argc, char** argv) { return lion::Main(argc, argv); }
