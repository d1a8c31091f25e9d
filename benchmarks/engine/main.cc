// engine_benchmark: the forward pass of models of the named sizes, as time, tokens a second, memory a token, and as a
// multiple of the limit L: its matrix products alone, measured in the same run. Prints no speed for a wrong result.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/engine/random_model.h"
#include "engine/engine.h"
#include "engine/speed.h"

namespace lion {
namespace {

struct Flags {
  std::vector<std::string> sizes = {"tiny"};
  std::vector<std::string> variants = {"lit", "d", "s"};
  std::vector<std::string> orders = {"normal"};
  std::vector<int64_t> resolutions = {224, 512, 1024};
  std::vector<int64_t> batches = {1};
  std::vector<std::string> types = {"auto"};
  std::vector<int> threads = {0};
  int repeats = 7;
  double budget_s = 20;
};

struct Size {
  const char* name;
  int64_t width, heads;
};
constexpr Size kSizes[] = {{"tiny", 192, 3}, {"small", 384, 6}, {"base", 768, 12}, {"large", 1024, 16}};

std::vector<uint8_t> Pixels(int64_t side) {
  std::vector<uint8_t> pixels(static_cast<size_t>(side * side * 3));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>((i * (i >> 9)) % 251);
  return pixels;
}

std::unique_ptr<Engine> MakeEngine(const LoadedModel& model, const EngineOptions& options) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(model, options);
  if (engine.ok()) return *std::move(engine);
  std::cerr << engine.status() << "\n";
  std::exit(1);
}

std::vector<float> Embed(Engine& engine, int64_t side) {
  const std::vector<uint8_t> pixels = Pixels(side);
  const Request request = {.image = {PixelLayout::kInterleavedUint8, pixels.data(), side, side}, .embedding = true};
  Result result;
  const absl::Status status = engine.Forward({&request, 1}, {&result, 1});
  if (!status.ok() || !result.status.ok()) {
    std::cerr << status << " " << result.status << "\n";
    std::exit(1);
  }
  return result.embedding;
}

// Against the attention form in float32, whose sums are formed in another way.
void Check(const LoadedModel& model, Engine& engine, bool is_float) {
  constexpr int64_t kSide = 176;
  const std::unique_ptr<Engine> reference =
      MakeEngine(model, {.compute_type = ComputeType::kFloat32,
                         .mixer = model.config.variant == Variant::kSoftmax ? MixerForm::kAuto : MixerForm::kAttention,
                         .max_batch_tokens = 1024});
  const std::vector<float> want = Embed(*reference, kSide), got = Embed(engine, kSide);
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  const double relative = std::sqrt(error / norm);
  // docs/mathematics.md, section 6.
  if (relative <= (is_float ? 1e-4 : 2e-2)) return;
  std::cerr << "the embedding is off by " << relative << " (relative RMS): no speed is printed for a wrong result\n";
  std::exit(1);
}

void Measure(const Flags& flags, const LoadedModel& model, const std::string& name, const std::string& type_name,
             int threads) {
  const int64_t largest_side = std::ranges::max(flags.resolutions), largest_batch = std::ranges::max(flags.batches);
  const auto tokens_of = [](int64_t side) { return (side / 16) * (side / 16) + 1; };
  EngineOptions options;
  options.compute_type = type_name == "float32"    ? ComputeType::kFloat32
                         : type_name == "bfloat16" ? ComputeType::kBFloat16
                                                   : ComputeType::kAuto;
  options.threads = threads;
  options.max_batch_tokens = std::max(tokens_of(largest_side), tokens_of(224) * largest_batch);
  for (const int64_t side : flags.resolutions) {
    for (const int64_t batch : flags.batches) {
      if (tokens_of(side) * batch <= 65'537) {
        options.max_batch_tokens = std::max(options.max_batch_tokens, tokens_of(side) * batch);
      }
    }
  }
  const std::unique_ptr<Engine> engine = MakeEngine(model, options);
  const bool is_float = engine->compute_type() == ComputeType::kFloat32;
  Check(model, *engine, is_float);
  for (const int64_t side : flags.resolutions) {
    for (const int64_t batch : flags.batches) {
      const int64_t tokens = tokens_of(side) * batch;
      if (tokens > 65'537) continue;
      const std::vector<uint8_t> pixels = Pixels(side);
      const std::vector<Request> requests(
          static_cast<size_t>(batch),
          {.image = {PixelLayout::kInterleavedUint8, pixels.data(), side, side}, .embedding = true});
      const absl::StatusOr<Speed> speed =
          MeasureSpeed(*engine, requests, {.repeats = flags.repeats, .budget_s = flags.budget_s});
      if (!speed.ok()) {
        std::cerr << speed.status() << "\n";
        std::exit(1);
      }
      std::printf("%-16s %5lld %5lld %7lld %-8s %3d %10.2f %10.0f %10.2f %6.2f %8lld\n", name.c_str(),
                  static_cast<long long>(side), static_cast<long long>(batch), static_cast<long long>(tokens),
                  std::string(ComputeTypeName(engine->compute_type())).c_str(), engine->threads(),
                  1e3 * speed->forward_s, static_cast<double>(tokens) / speed->forward_s, 1e3 * speed->limit_s,
                  speed->forward_s / speed->limit_s, static_cast<long long>(engine->bytes_per_token()));
      std::fflush(stdout);
    }
  }
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Forward passes of random models beside their matrix products alone (L)");
  app.add_option("--sizes", flags.sizes, "tiny,small,base,large")->delimiter(',');
  app.add_option("--variants", flags.variants, "lit,d,s,softmax")->delimiter(',');
  app.add_option("--orders", flags.orders, "normal,s")->delimiter(',');
  app.add_option("--resolutions", flags.resolutions, "pixels a side")->delimiter(',');
  app.add_option("--batches", flags.batches, "images a batch; over 65,537 tokens together: left out")->delimiter(',');
  app.add_option("--types", flags.types, "auto,float32,bfloat16")->delimiter(',');
  app.add_option("--threads", flags.threads, "0: the cgroup's quota")->delimiter(',');
  app.add_option("--repeats", flags.repeats, "of each figure, which is their median")->check(CLI::PositiveNumber);
  app.add_option("--budget-s", flags.budget_s, "seconds after which no further repeat of a figure begins");
  CLI11_PARSE(app, argc, argv);
  std::printf("%-16s %5s %5s %7s %-8s %3s %10s %10s %10s %6s %8s\n", "model", "side", "batch", "tokens", "type", "thr",
              "ms", "tokens/s", "L ms", "ms/L", "B/token");
  for (const std::string& size_name : flags.sizes) {
    const auto size = std::ranges::find_if(kSizes, [&](const Size& s) { return size_name == s.name; });
    if (size == std::end(kSizes)) {
      std::cerr << "--sizes: " << size_name << " is none of tiny, small, base, large\n";
      return 2;
    }
    for (const std::string& variant_name : flags.variants) {
      for (const std::string& order_name : flags.orders) {
        const std::optional<Variant> variant = ParseVariant(variant_name);
        const std::optional<PatchOrder> order = ParsePatchOrder(order_name);
        if (!variant || !order) {
          std::cerr << "unknown variant or order: " << variant_name << ", " << order_name << "\n";
          return 2;
        }
        const LoadedModel model =
            RandomModel({.width = size->width, .heads = size->heads, .variant = *variant, .order = *order});
        const std::string name = absl::StrCat(size_name, "/", variant_name, "/", order_name);
        for (const std::string& type : flags.types) {
          for (const int threads : flags.threads) Measure(flags, model, name, type, threads);
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace lion

int main(int argc, char** argv) { return lion::Main(argc, argv); }
