// Whole vision models: goldens in every form and type, batches against single runs, poolings, faults.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using testing::Near;

const char* const kCases[] = {"decay_long",     "decay_normal",
                              "decay_s",        "lit_normal",
                              "lit_s",          "plain_state_dict_headless",
                              "selective_long", "selective_normal",
                              "selective_s",    "selective_s_pos_cls",
                              "softmax_vit",    "tiny_from_args_only"};

// Bounds of docs/mathematics.md, section 6.
double Bound(ComputeType type) { return type == ComputeType::kFloat32 ? 2e-5 : 2e-2; }

std::string Isa() {
  const char* isa = std::getenv("LION_TEST_ISA");
  return isa == nullptr ? "auto" : isa;
}

LoadedModel Load(const std::string& name, WeightChoice weights = WeightChoice::kModel) {
  absl::StatusOr<LoadedModel> model =
      LoadModel(testing::SourcePath("tests/golden/vision/" + name + "/checkpoint.pth"), {.weights = weights});
  if (!model.ok()) {
    std::cerr << name << ": " << model.status() << "\n";
    std::abort();
  }
  return *std::move(model);
}

absl::StatusOr<std::unique_ptr<Engine>> Make(const LoadedModel& model, EngineOptions options) {
  options.isa = Isa();
  if (options.max_batch_tokens == 0) options.max_batch_tokens = 6000;
  if (options.threads == 0) options.threads = 2;
  return Engine::Create(model, options);
}

// The golden inputs of a case.
struct Inputs {
  explicit Inputs(const std::string& name)
      : golden(testing::ReadGolden("tests/golden/vision/" + name + "/expected.safetensors")) {
    for (int n = 0; golden.contains("image." + std::to_string(n)); ++n) {
      const auto& image = golden.at("image." + std::to_string(n));
      pixels.emplace_back(image.values.begin(), image.values.end());
      requests.push_back({.image = {PixelLayout::kPlanarFloat32, nullptr, image.shape[1], image.shape[2]}});
    }
    for (size_t n = 0; n < pixels.size(); ++n) requests[n].image.pixels = pixels[n].data();
  }
  const std::vector<double>& Want(const std::string& what, size_t n) const {
    return golden.at(what + "." + std::to_string(n)).values;
  }
  bool Has(const std::string& what) const { return golden.contains(what + ".0"); }

  std::map<std::string, testing::GoldenTensor> golden;
  std::vector<std::vector<float>> pixels;
  std::vector<Request> requests;
};

std::vector<Result> RunBatch(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Result> results(requests.size());
  const absl::Status status = engine.Forward(requests, results);
  EXPECT_TRUE(status.ok()) << status;
  for (const Result& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
  return results;
}

void ExpectGolden(const std::string& name, const EngineOptions& options, const std::string& what) {
  const LoadedModel model = Load(name);
  absl::StatusOr<std::unique_ptr<Engine>> engine = Make(model, options);
  if (!engine.ok() && absl::StrContains(engine.status().message(), "this processor has no")) {
    std::cout << "SKIPPED, MACHINE LACKS " << Isa() << "\n";
    GTEST_SKIP();
  }
  if (!engine.ok() && absl::StrContains(engine.status().message(), "cannot compute in bfloat16")) {
    std::cout << "no bfloat16 with " << Isa() << "\n";
    return;
  }
  ASSERT_TRUE(engine.ok()) << engine.status();
  Inputs inputs(name);
  const bool has_logits = inputs.Has("logits");
  for (Request& request : inputs.requests) {
    request.embedding = true;
    request.pooling = (*engine)->config().pooling;
    request.logits = has_logits;
  }
  const double bound = Bound((*engine)->compute_type());
  const std::vector<Result> results = RunBatch(**engine, inputs.requests);
  for (size_t n = 0; n < results.size(); ++n) {
    EXPECT_TRUE(Near(results[n].embedding, inputs.Want("embedding", n), bound)) << name << "." << n << " " << what;
    if (has_logits) {
      EXPECT_TRUE(Near(results[n].logits, inputs.Want("logits", n), bound)) << name << "." << n << " " << what;
    }
  }
  for (Request& request : inputs.requests) {
    request.pooling = Pooling::kNone;
    request.logits = false;
  }
  const std::vector<Result> rows = RunBatch(**engine, inputs.requests);
  for (size_t n = 0; n < rows.size(); ++n) {
    EXPECT_TRUE(Near(rows[n].embedding, inputs.Want("tokens", n), bound)) << name << "." << n << " " << what;
    EXPECT_EQ(rows[n].rows,
              (*engine)->CountTokens(inputs.requests[n].image.height, inputs.requests[n].image.width).value());
  }
}

TEST(VisionEngine, GoldenAnswersInEveryFormAndType) {
  for (const char* name : kCases) {
    for (const MixerForm form : {MixerForm::kChunk, MixerForm::kRecurrent, MixerForm::kAttention}) {
      for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBFloat16}) {
        ExpectGolden(name, {.compute_type = type, .mixer = form},
                     std::string(ComputeTypeName(type)) + " form " + std::to_string(static_cast<int>(form)));
        if (IsSkipped()) return;
      }
    }
  }
}

TEST(VisionEngine, GoldenAnswersOfTheReferenceKernels) {
  for (const char* name : {"selective_s_pos_cls", "decay_s", "softmax_vit"}) {
    for (const MixerForm form : {MixerForm::kRecurrent, MixerForm::kAttention}) {
      ExpectGolden(name, {.device = Device::kReference, .mixer = form}, "reference");
    }
  }
}

TEST(VisionEngine, TheAverageOfTheWeightsIsServedWhenAskedFor) {
  const LoadedModel model = Load("selective_s", WeightChoice::kEma);
  EXPECT_EQ(model.weights, "ema");
  auto engine = Make(model, {.compute_type = ComputeType::kFloat32}).value();
  Inputs inputs("selective_s");
  for (Request& request : inputs.requests) request.logits = true;
  const std::vector<Result> results = RunBatch(*engine, inputs.requests);
  size_t compared = 0;
  for (size_t n = 0; n < results.size(); ++n) {
    if (!inputs.golden.contains("ema_logits." + std::to_string(n))) continue;
    EXPECT_TRUE(Near(results[n].logits, inputs.Want("ema_logits", n), 2e-5));
    EXPECT_FALSE(Near(results[n].logits, inputs.Want("logits", n), 2e-5));
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

// Random images of mixed sizes as bytes.
struct RandomImages {
  explicit RandomImages(std::mt19937& random, size_t count, int64_t low, int64_t high) {
    std::uniform_int_distribution<int64_t> side(low, high);
    for (size_t i = 0; i < count; ++i) {
      const int64_t height = side(random), width = side(random);
      pixels.emplace_back(height * width * 3);
      for (uint8_t& value : pixels.back()) value = static_cast<uint8_t>(random());
      requests.push_back({.image = {PixelLayout::kInterleavedUint8, nullptr, height, width}});
    }
    for (size_t i = 0; i < count; ++i) requests[i].image.pixels = pixels[i].data();
  }
  std::vector<std::vector<uint8_t>> pixels;
  std::vector<Request> requests;
};

TEST(VisionEngine, AnImageDoesNotFeelItsBatchBitForBit) {
  std::mt19937 random(1);
  for (const char* name : {"selective_s_pos_cls", "decay_normal", "lit_s", "softmax_vit"}) {
    const LoadedModel model = Load(name);
    for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBFloat16}) {
      auto engine = Make(model, {.compute_type = type});
      if (type == ComputeType::kBFloat16 && !engine.ok()) continue;  // not every machine has it
      ASSERT_TRUE(engine.ok()) << engine.status();
      RandomImages images(random, 24, 8, 140);
      const Pooling poolings[] = {Pooling::kMean, Pooling::kCls, Pooling::kMax, Pooling::kLast, Pooling::kNone};
      for (size_t i = 0; i < images.requests.size(); ++i) {
        images.requests[i].embedding = true;
        images.requests[i].pooling = poolings[i % 5];
        images.requests[i].logits = i % 2 == 0;
      }
      const std::vector<Result> together = RunBatch(**engine, images.requests);
      std::vector<Request> reversed(images.requests.rbegin(), images.requests.rend());
      const std::vector<Result> backwards = RunBatch(**engine, reversed);
      for (size_t i = 0; i < together.size(); ++i) {
        const std::vector<Result> alone = RunBatch(**engine, {images.requests[i]});
        EXPECT_EQ(alone[0].embedding, together[i].embedding) << name << " " << i;
        EXPECT_EQ(alone[0].logits, together[i].logits) << name << " " << i;
        EXPECT_EQ(backwards[together.size() - 1 - i].embedding, together[i].embedding) << name << " " << i;
      }
    }
  }
}

TEST(VisionEngine, TheNumberOfThreadsDoesNotChangeAnswers) {
  std::mt19937 random(2);
  const LoadedModel model = Load("selective_s_pos_cls");
  RandomImages images(random, 5, 30, 200);
  for (Request& request : images.requests) request.embedding = request.logits = true;
  std::vector<std::vector<Result>> results;
  for (const int threads : {1, 2, 3}) {
    results.push_back(RunBatch(*Make(model, {.threads = threads}).value(), images.requests));
  }
  for (size_t t = 1; t < results.size(); ++t) {
    for (size_t i = 0; i < images.requests.size(); ++i) {
      EXPECT_EQ(results[t][i].embedding, results[0][i].embedding);
      EXPECT_EQ(results[t][i].logits, results[0][i].logits);
    }
  }
}

TEST(VisionEngine, PoolingsFollowFromTheRows) {
  std::mt19937 random(3);
  auto engine = Make(Load("selective_normal"), {.compute_type = ComputeType::kFloat32}).value();
  RandomImages images(random, 1, 50, 60);
  const int64_t width = engine->config().width;
  std::vector<Request> requests(5, images.requests[0]);
  const Pooling poolings[] = {Pooling::kNone, Pooling::kMean, Pooling::kCls, Pooling::kMax, Pooling::kLast};
  for (size_t i = 0; i < 5; ++i) {
    requests[i].embedding = true;
    requests[i].pooling = poolings[i];
  }
  const std::vector<Result> results = RunBatch(*engine, requests);
  const std::vector<float>& rows = results[0].embedding;
  std::vector<double> mean(width, 0.0), peak(width, -HUGE_VAL);
  for (int64_t r = 0; r < results[0].rows; ++r) {
    for (int64_t n = 0; n < width; ++n) {
      mean[n] += rows[r * width + n] / static_cast<double>(results[0].rows);
      peak[n] = std::max<double>(peak[n], rows[r * width + n]);
    }
  }
  EXPECT_TRUE(Near(results[1].embedding, mean, 1e-6));
  EXPECT_TRUE(Near(results[2].embedding, std::vector<float>(rows.begin(), rows.begin() + width), 1e-7));
  EXPECT_TRUE(Near(results[3].embedding, peak, 1e-7));
  EXPECT_TRUE(Near(results[4].embedding, std::vector<float>(rows.end() - width, rows.end()), 1e-7));
}

TEST(VisionEngine, ANonFiniteInputFailsAloneAndOthersAreUntouched) {
  std::mt19937 random(4);
  auto engine = Make(Load("selective_s_pos_cls"), {}).value();
  RandomImages images(random, 3, 30, 60);
  std::vector<float> poison(3 * 32 * 32, 0.5f);
  poison[77] = std::nanf("");
  std::vector<Request> requests = images.requests;
  requests.insert(requests.begin() + 1, Request{.image = {PixelLayout::kPlanarFloat32, poison.data(), 32, 32}});
  for (Request& request : requests) request.embedding = request.logits = true;
  std::vector<Result> results(requests.size());
  ASSERT_TRUE(engine->Forward(requests, results).ok());
  for (size_t i = 0; i < results.size(); ++i) {
    if (i == 1) {
      EXPECT_EQ(results[i].status.code(), absl::StatusCode::kInternal);
      EXPECT_TRUE(results[i].embedding.empty() && results[i].logits.empty());
    } else {
      ASSERT_TRUE(results[i].status.ok());
      EXPECT_EQ(results[i].embedding, RunBatch(*engine, {requests[i]})[0].embedding);
    }
  }
}

TEST(VisionEngine, ANaNWeightAnywhereNeverLeavesAsANumber) {
  LoadedModel model = Load("selective_s_pos_cls");
  VisionBlockWeights& block = model.vision.blocks[1];
  std::mt19937 random(5);
  RandomImages images(random, 1, 40, 60);
  images.requests[0].embedding = images.requests[0].logits = true;
  for (TensorView* view :
       {&block.qkv.weight, &block.gate.weight, &block.gate2.bias, &block.proj.bias, &block.fc1.weight,
        &block.norm2.weight, &model.vision.patch.weight, &model.vision.cls_token}) {
    const TensorView before = *view;
    std::vector<float> values = ToFloat32(before);
    values[values.size() / 2] = std::nanf("");
    view->type = TensorType::kFloat32;
    view->data = values.data();
    for (int64_t d = static_cast<int64_t>(view->shape.size()) - 1, stride = 1; d >= 0; stride *= view->shape[d--]) {
      view->strides[d] = stride;
    }
    for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBFloat16}) {
      auto engine = Make(model, {.compute_type = type});
      if (type == ComputeType::kBFloat16 && !engine.ok()) continue;  // not every machine has it
      ASSERT_TRUE(engine.ok()) << engine.status();
      std::vector<Result> results(1);
      ASSERT_TRUE((*engine)->Forward(images.requests, results).ok());
      EXPECT_EQ(results[0].status.code(), absl::StatusCode::kInternal);
    }
    *view = before;
  }
}

TEST(VisionEngine, InputsSmallerThanAPatchAndBatchesTooLargeAreRefused) {
  auto engine = Make(Load("selective_normal"), {.max_batch_tokens = 100}).value();
  EXPECT_EQ(engine->CountTokens(7, 100).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->CountTokens(8, 17).value(), 3);
  std::mt19937 random(6);
  RandomImages images(random, 1, 200, 200);
  images.requests[0].embedding = true;
  std::vector<Result> results(1);
  EXPECT_FALSE(engine->Forward(images.requests, results).ok());
  EXPECT_TRUE(engine->Forward({}, {}).ok());
}

TEST(VisionEngine, OptionsTheMachineCannotSatisfyAreNamed) {
  const LoadedModel model = Load("selective_normal");
  EngineOptions options{.isa = "neon"};
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(model, options);
  ASSERT_FALSE(engine.ok());
  EXPECT_TRUE(absl::StrContains(engine.status().message(), "neon"));
}

}  // namespace
}  // namespace lion
