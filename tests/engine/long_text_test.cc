// Long texts and large weights: forms that agree, memory that stays flat.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "tests/engine/text_models.h"
#include "tests/support/compare.h"

namespace lion {
namespace {

using testing::MakeEngine;
using testing::Near;
using testing::Text;

std::vector<float> Rows(const LoadedModel& model, EngineOptions options, const Text& text) {
  options.max_batch_tokens = static_cast<int64_t>(text.ids.size());
  absl::StatusOr<std::unique_ptr<Engine>> engine = MakeEngine(model, options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  const Request request{
      .text = {.ids = text.ids, .type_ids = text.type_ids}, .embedding = true, .pooling = Pooling::kNone};
  return testing::RunBatch(**engine, {request})[0].embedding;
}

bool HasBFloat16(const LoadedModel& model) { return MakeEngine(model, {.compute_type = ComputeType::kBFloat16}).ok(); }

// A text of one repeated token: where sums over a sequence grow fastest.
Text Repeated(int64_t tokens) { return {std::vector<int32_t>(tokens, 9), {}}; }

void ExpectFormsAgree(const char* name, const Text& text, std::initializer_list<MixerForm> others) {
  const LoadedModel model = testing::WithoutPositions(testing::LoadText(name));
  const std::vector<float> chunk = Rows(model, {.compute_type = ComputeType::kFloat32}, text);
  for (const MixerForm form : others) {
    EXPECT_TRUE(Near(Rows(model, {.compute_type = ComputeType::kFloat32, .mixer = form}, text), chunk, 2e-5))
        << name << " " << text.ids.size() << " form " << static_cast<int>(form);
  }
}

TEST(LongText, FormsAgreeAt1024Tokens) {
  std::mt19937 random(1);
  for (const char* name : {"lion_s_mlm", "lion_d_mlm", "lion_lit_mlm", "linear_attention_mlm"}) {
    for (const Text& text : {Repeated(1024), testing::RandomText(random, 1024, 200)}) {
      ExpectFormsAgree(name, text, {MixerForm::kRecurrent, MixerForm::kAttention});
    }
  }
}

TEST(LongText, FormsAgreeAt8192Tokens) {
  std::mt19937 random(2);
  ExpectFormsAgree("lion_s_mlm", testing::RandomText(random, 8192, 200), {MixerForm::kRecurrent});
  ExpectFormsAgree("lion_s_mlm", Repeated(8192), {MixerForm::kRecurrent, MixerForm::kAttention});
  for (const char* name : {"lion_d_mlm", "lion_lit_mlm"}) {
    ExpectFormsAgree(name, Repeated(8192), {MixerForm::kRecurrent});
  }
}

TEST(LongText, FormsAgreeAt65536Tokens) {
  for (const char* name : {"lion_s_mlm", "lion_lit_mlm"}) {
    ExpectFormsAgree(name, Repeated(65536), {MixerForm::kRecurrent});
  }
}

// Of the rows in bfloat16 against those in float32; infinite when one is not finite.
double BFloat16Error(const LoadedModel& model, const Text& text) {
  const std::vector<float> want = Rows(model, {.compute_type = ComputeType::kFloat32}, text);
  return testing::RelativeError(Rows(model, {.compute_type = ComputeType::kBFloat16}, text),
                                std::vector<double>(want.begin(), want.end()));
}

TEST(LongText, LengthAddsNoErrorInBFloat16) {
  std::mt19937 random(3);
  for (const char* name : {"lion_s_mlm", "lion_d_mlm", "lion_lit_mlm"}) {
    const LoadedModel model = testing::WithoutPositions(testing::LoadText(name));
    if (!HasBFloat16(model)) GTEST_SKIP();
    EXPECT_LE(BFloat16Error(model, testing::RandomText(random, 8192, 200)), 5e-2) << name;
    // All rows are the same here, so that the error is that of one row: section 6 bounds those of whole texts.
    const double error = BFloat16Error(model, Repeated(256));
    for (const int64_t tokens : {1024, 8192, 32768}) {
      EXPECT_LE(BFloat16Error(model, Repeated(tokens)), 2 * error) << name << " " << tokens;
    }
  }
}

TEST(LongText, LargeInputProjectionsStayFiniteAndWithinTheBoundInBFloat16) {
  for (const char* name : {"lion_s_mlm", "lion_d_mlm", "lion_lit_mlm"}) {
    LoadedModel model = testing::WithoutPositions(testing::LoadText(name));
    TextLayerWeights& layer = model.text.layers[0];
    testing::ReplacedTensor query(layer.query.weight), key(layer.key.weight), value(layer.value.weight);
    for (testing::ReplacedTensor* tensor : {&query, &key, &value}) {
      for (float& weight : tensor->values()) weight *= 300;
    }
    if (!HasBFloat16(model)) GTEST_SKIP();
    std::mt19937 random(4);
    const Text text = testing::RandomText(random, 500, model.config.vocabulary);
    EXPECT_LE(BFloat16Error(model, text), 5e-2) << name;
  }
}

// A field of /proc/self/status, in bytes.
int64_t StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    if (words >> name >> kib && name == field + ":") return kib * 1024;
  }
  return 0;
}

TEST(LongText, A100000TokenTextRunsInTheMemoryTakenAtStart) {
#ifdef LION_SANITIZED
  GTEST_SKIP() << "a sanitizer keeps memory of its own";
#endif
  const int64_t tokens = 100'000, constant = 16 << 20;
  const LoadedModel model = testing::LoadText("lion_s_mlm");
  std::mt19937 random(5);
  const Text text = testing::RandomText(random, tokens, 200);
  const Request request{.text = {.ids = text.ids, .type_ids = text.type_ids}, .embedding = true};
  const int64_t before = StatusBytes("VmRSS");
  auto engine = MakeEngine(model, {.max_batch_tokens = tokens}).value();
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak counts from here
  ASSERT_LT(StatusBytes("VmHWM"), before + engine->bytes_per_token() * tokens + constant);
  const Result result = testing::RunBatch(*engine, {request})[0];
  EXPECT_EQ(result.embedding.size(), 48u);
  EXPECT_GT(before, 0);
  EXPECT_LT(StatusBytes("VmHWM"), before + engine->bytes_per_token() * tokens + constant);
}

}  // namespace
}  // namespace lion
