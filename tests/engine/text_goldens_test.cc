// Whole text models against the goldens, in every form and type.

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/engine/text_models.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using testing::Near;

const char* const kCases[] = {"linear_attention_mlm", "lion_d_cls_f16",   "lion_d_mlm", "lion_d_regression",
                              "lion_lit_mlm",         "lion_lit_sharded", "lion_s_mlm", "lion_s_padded_vocab_untied",
                              "nova_inputdep_cls",    "softmax_bert_mlm"};

// Bounds of docs/mathematics.md, section 6.
double Bound(ComputeType type) { return type == ComputeType::kFloat32 ? 2e-5 : 5e-2; }

// The golden inputs of a case, as a batch.
struct Inputs {
  explicit Inputs(const std::string& name)
      : golden(testing::ReadGolden("tests/golden/text/" + name + "/expected.safetensors")) {
    for (int n = 0; golden.contains("input_ids." + std::to_string(n)); ++n) {
      const auto& ids = Want("input_ids", n);
      const auto& types = Want("token_type_ids", n);
      texts.push_back({{ids.begin(), ids.end()}, {types.begin(), types.end()}});
    }
  }
  const std::vector<double>& Want(const std::string& what, size_t n) const {
    return golden.at(what + "." + std::to_string(n)).values;
  }
  bool Has(const std::string& what) const { return golden.contains(what + ".0"); }

  std::map<std::string, testing::GoldenTensor> golden;
  std::vector<testing::Text> texts;
};

// The logits of all places, [L, vocabulary], from predictions of all tokens.
std::vector<float> LogitsById(const Result& result, int64_t vocabulary) {
  std::vector<float> logits(result.predictions.size(), std::nanf(""));
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i / vocabulary * vocabulary + result.predictions[i].id] = result.predictions[i].logit;
  }
  return logits;
}

// The first `columns` of each row of `width`.
std::vector<double> FirstColumns(const std::vector<double>& rows, int64_t width, int64_t columns) {
  std::vector<double> values;
  for (size_t r = 0; r < rows.size(); r += width) values.insert(values.end(), &rows[r], &rows[r] + columns);
  return values;
}

double Cosine(const std::vector<float>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    ab += a[i] * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// The logits of all inputs are one tensor here, [n, classes]: a single input's may cancel to almost nothing (of
// lion_d_cls_f16.0, rounding no more than the weights to bfloat16 moves them by 10 %). In float32 each must stand
// alone.
void ExpectLogits(const std::vector<Result>& results, const Inputs& inputs, ComputeType type, const std::string& what) {
  std::vector<float> all;
  std::vector<double> all_want;
  for (size_t n = 0; n < results.size(); ++n) {
    const std::vector<double>& want = inputs.Want("logits", n);
    if (type == ComputeType::kFloat32) {
      EXPECT_TRUE(Near(results[n].logits, want, Bound(type))) << what << "." << n;
    }
    ASSERT_EQ(results[n].logits.size(), want.size());
    all.insert(all.end(), results[n].logits.begin(), results[n].logits.end());
    all_want.insert(all_want.end(), want.begin(), want.end());
  }
  EXPECT_TRUE(Near(all, all_want, Bound(type))) << what;
}

void ExpectGolden(const std::string& name, const EngineOptions& options, const std::string& what) {
  const LoadedModel model = testing::LoadText(name);
  absl::StatusOr<std::unique_ptr<Engine>> made = testing::MakeEngine(model, options);
  if (!made.ok() && absl::StrContains(made.status().message(), "this processor has no")) {
    std::cout << "SKIPPED, MACHINE LACKS " << testing::Isa() << "\n";
    GTEST_SKIP();
  }
  if (!made.ok() && absl::StrContains(made.status().message(), "cannot compute in bfloat16")) {
    std::cout << "no bfloat16 with " << testing::Isa() << "\n";
    return;
  }
  ASSERT_TRUE(made.ok()) << made.status();
  Engine& engine = **made;
  const Inputs inputs(name);
  const int64_t vocabulary = engine.config().vocabulary;
  const double bound = Bound(engine.compute_type());
  for (const auto& [tensor, pooling] : {std::pair{"tokens", Pooling::kNone},
                                        {"mean", Pooling::kMean},
                                        {"cls", Pooling::kCls},
                                        {"pooler", Pooling::kPooler}}) {
    if (!inputs.Has(tensor)) continue;
    std::vector<Request> requests = testing::RequestsOf(inputs.texts);
    for (Request& request : requests) {
      request.embedding = true;
      request.pooling = pooling;
    }
    const std::vector<Result> results = testing::RunBatch(engine, requests);
    for (size_t n = 0; n < results.size(); ++n) {
      const std::string place = name + " " + tensor + "." + std::to_string(n) + " " + what;
      EXPECT_TRUE(Near(results[n].embedding, inputs.Want(tensor, n), bound)) << place;
      EXPECT_EQ(results[n].rows, pooling == Pooling::kNone ? inputs.texts[n].ids.size() : 1) << place;
      if (pooling == Pooling::kMean || pooling == Pooling::kCls) {
        EXPECT_GE(Cosine(results[n].embedding, inputs.Want(tensor, n)), 0.999) << place;
      }
    }
  }
  std::vector<Request> requests = testing::RequestsOf(inputs.texts);
  std::vector<int32_t> places(1000);
  std::iota(places.begin(), places.end(), 0);
  for (Request& request : requests) {
    request.logits = inputs.Has("logits");
    request.masked = std::span(places).first(request.text.ids.size());
    request.predictions = inputs.Has("mlm_logits") ? vocabulary : 0;
  }
  const std::vector<Result> results = testing::RunBatch(engine, requests);
  if (inputs.Has("logits")) ExpectLogits(results, inputs, engine.compute_type(), name + " " + what);
  for (size_t n = 0; n < results.size(); ++n) {
    const std::string place = name + "." + std::to_string(n) + " " + what;
    if (inputs.Has("mlm_logits")) {
      const int64_t rows = inputs.golden.at("mlm_logits." + std::to_string(n)).shape[1];
      const std::vector<double> want = FirstColumns(inputs.Want("mlm_logits", n), rows, vocabulary);
      EXPECT_TRUE(Near(LogitsById(results[n], vocabulary), want, bound)) << place;
    }
  }
}

TEST(TextGoldens, InEveryFormAndType) {
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

TEST(TextGoldens, OfTheReferenceKernels) {
  for (const char* name : kCases) {
    for (const MixerForm form : {MixerForm::kRecurrent, MixerForm::kAttention}) {
      ExpectGolden(name, {.device = Device::kReference, .mixer = form}, "reference");
    }
  }
}

}  // namespace
}  // namespace lion
