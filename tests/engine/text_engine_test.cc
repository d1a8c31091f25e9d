// Text models: batches against single runs, poolings, predictions, refusals, faults.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "tests/engine/text_models.h"
#include "tests/support/compare.h"

namespace lion {
namespace {

using testing::MakeEngine;
using testing::Near;
using testing::RunBatch;
using testing::Text;

const char* const kVariants[] = {"lion_s_mlm",       "lion_d_mlm",        "lion_lit_mlm",
                                 "softmax_bert_mlm", "nova_inputdep_cls", "lion_d_regression"};
const Pooling kPoolings[] = {Pooling::kMean, Pooling::kCls, Pooling::kMax, Pooling::kLast, Pooling::kNone};

void ExpectEqual(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(a.embedding, b.embedding) << what;
  EXPECT_EQ(a.logits, b.logits) << what;
  ASSERT_EQ(a.predictions.size(), b.predictions.size()) << what;
  for (size_t i = 0; i < a.predictions.size(); ++i) {
    EXPECT_EQ(a.predictions[i].id, b.predictions[i].id) << what;
    EXPECT_EQ(a.predictions[i].logit, b.predictions[i].logit) << what;
    EXPECT_EQ(a.predictions[i].probability, b.predictions[i].probability) << what;
  }
}

TEST(TextEngine, AShortTextDoesNotFeelALongOneBitForBit) {
  std::mt19937 random(1);
  const Text hi{{2, 77, 3}, {0, 0, 0}};
  const std::vector<int32_t> masked = {1};
  for (const char* name : kVariants) {
    const LoadedModel model = testing::WithoutPositions(testing::LoadText(name));
    for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBFloat16}) {
      auto engine = MakeEngine(model, {.compute_type = type});
      if (type == ComputeType::kBFloat16 && !engine.ok()) continue;  // not every machine has it
      ASSERT_TRUE(engine.ok()) << engine.status();
      const int64_t tokens = model.config.variant == Variant::kSoftmax ? 1500 : 5000;
      const Text book = testing::RandomText(random, tokens, 200);
      const std::vector<Text> texts = {book, hi, {book.ids, {}}, hi};
      std::vector<Request> requests = testing::RequestsOf(texts);
      requests[2].text.ids = requests[2].text.ids.first(300);
      for (Request& request : requests) {
        request.embedding = request.logits = true;
        request.masked = masked;
        request.predictions = 5;
      }
      const Result alone = RunBatch(**engine, {requests[1]})[0];
      const std::vector<Result> together = RunBatch(**engine, requests);
      ExpectEqual(alone, together[1], name);
      ExpectEqual(alone, together[3], name);
      ExpectEqual(RunBatch(**engine, {requests[0]})[0], together[0], name);
    }
  }
}

TEST(TextEngine, ATextDoesNotFeelItsBatchInAnyFormBitForBit) {
  std::mt19937 random(2);
  for (const char* name : {"lion_s_mlm", "lion_d_mlm", "lion_lit_mlm"}) {
    const LoadedModel model = testing::WithoutPositions(testing::LoadText(name));
    for (const MixerForm form : {MixerForm::kChunk, MixerForm::kRecurrent, MixerForm::kAttention}) {
      auto engine = MakeEngine(model, {.mixer = form}).value();
      std::vector<Text> texts;
      std::vector<int32_t> places(300);
      std::iota(places.begin(), places.end(), 0);
      for (int i = 0; i < 20; ++i) texts.push_back(testing::RandomText(random, 1 + random() % 200, 200));
      std::vector<Request> requests = testing::RequestsOf(texts);
      for (size_t i = 0; i < requests.size(); ++i) {
        requests[i].embedding = true;
        requests[i].pooling = kPoolings[i % 5];
        requests[i].masked = std::span(places).first(i % 3 == 0 ? requests[i].text.ids.size() : 1);
        requests[i].predictions = static_cast<int64_t>(i % 7);
      }
      const std::vector<Result> together = RunBatch(*engine, requests);
      const std::vector<Result> backwards = RunBatch(*engine, {requests.rbegin(), requests.rend()});
      for (size_t i = 0; i < requests.size(); ++i) {
        ExpectEqual(RunBatch(*engine, {requests[i]})[0], together[i], name);
        ExpectEqual(backwards[requests.size() - 1 - i], together[i], name);
      }
    }
  }
}

TEST(TextEngine, TheNumberOfThreadsDoesNotChangeAnswers) {
  std::mt19937 random(3);
  const LoadedModel model = testing::LoadText("lion_s_mlm");
  const std::vector<Text> texts = {testing::RandomText(random, 700, 200), testing::RandomText(random, 3, 200)};
  const std::vector<int32_t> masked = {0, 2};
  std::vector<Request> requests = testing::RequestsOf(texts);
  for (Request& request : requests) {
    request.embedding = true;
    request.masked = masked;
    request.predictions = 200;
  }
  const std::vector<Result> one = RunBatch(*MakeEngine(model, {.threads = 1}).value(), requests);
  for (const int threads : {2, 3}) {
    const std::vector<Result> more = RunBatch(*MakeEngine(model, {.threads = threads}).value(), requests);
    for (size_t i = 0; i < one.size(); ++i) ExpectEqual(one[i], more[i], std::to_string(threads));
  }
}

TEST(TextEngine, PoolingsFollowFromTheRows) {
  std::mt19937 random(4);
  auto engine = MakeEngine(testing::LoadText("lion_s_mlm"), {.compute_type = ComputeType::kFloat32}).value();
  const int64_t width = engine->config().width;
  const std::vector<Text> texts(5, testing::RandomText(random, 90, 200));
  std::vector<Request> requests = testing::RequestsOf(texts);
  for (size_t i = 0; i < 5; ++i) {
    requests[i].embedding = true;
    requests[i].pooling = kPoolings[i];
  }
  const std::vector<Result> results = RunBatch(*engine, requests);
  const std::vector<float>& rows = results[4].embedding;
  EXPECT_EQ(results[4].rows, 90);
  std::vector<double> mean(width, 0.0), peak(width, -HUGE_VAL);
  for (int64_t i = 0; i < 90 * width; ++i) {
    mean[i % width] += rows[i] / 90.0;
    peak[i % width] = std::max<double>(peak[i % width], rows[i]);
  }
  EXPECT_TRUE(Near(results[0].embedding, mean, 1e-6));
  EXPECT_EQ(results[1].embedding, std::vector<float>(rows.begin(), rows.begin() + width));
  EXPECT_TRUE(Near(results[2].embedding, peak, 0));
  EXPECT_EQ(results[3].embedding, std::vector<float>(rows.end() - width, rows.end()));
}

TEST(TextEngine, TypeIdsLeftOutAreZeros) {
  auto engine = MakeEngine(testing::LoadText("lion_s_mlm"), {}).value();
  const std::vector<Text> texts = {{{5, 6, 7}, {}}, {{5, 6, 7}, {0, 0, 0}}, {{5, 6, 7}, {0, 1, 1}}};
  std::vector<Request> requests = testing::RequestsOf(texts);
  for (Request& request : requests) request.embedding = true;
  const std::vector<Result> results = RunBatch(*engine, requests);
  EXPECT_EQ(results[0].embedding, results[1].embedding);
  EXPECT_NE(results[0].embedding, results[2].embedding);
}

TEST(TextEngine, PredictionsAreTheLikeliestOfTheRealVocabulary) {
  std::mt19937 random(5);
  auto engine =
      MakeEngine(testing::LoadText("lion_s_padded_vocab_untied"), {.compute_type = ComputeType::kFloat32}).value();
  const std::vector<Text> texts = {testing::RandomText(random, 9, 203)};
  const std::vector<int32_t> masked = {8, 0, 8};
  std::vector<Request> requests = testing::RequestsOf(texts);
  requests[0].masked = masked;
  requests[0].predictions = 1000;
  const std::vector<TokenScore> all = RunBatch(*engine, requests)[0].predictions;
  ASSERT_EQ(all.size(), 3u * 203);
  for (size_t place = 0; place < 3; ++place) {
    double sum = 0;
    std::vector<bool> seen(203, false);
    for (size_t i = 0; i < 203; ++i) {
      const TokenScore& score = all[place * 203 + i];
      ASSERT_TRUE(score.id >= 0 && score.id < 203 && !seen[score.id]);
      seen[score.id] = true;
      sum += score.probability;
      ASSERT_TRUE(i == 0 || all[place * 203 + i - 1].logit >= score.logit);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  requests[0].predictions = 4;
  const std::vector<TokenScore> few = RunBatch(*engine, requests)[0].predictions;
  ASSERT_EQ(few.size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(few[i].id, all[i / 4 * 203 + i % 4].id);
    EXPECT_EQ(few[i].probability, all[i / 4 * 203 + i % 4].probability);
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(few[i].id, few[8 + i].id);
}

TEST(TextEngine, WhatTheModelHasNoHeadForStaysEmpty) {
  const std::vector<Text> texts = {{{5, 6, 7}, {}}};
  const std::vector<int32_t> masked = {1};
  std::vector<Request> requests = testing::RequestsOf(texts);
  requests[0].logits = requests[0].embedding = true;
  requests[0].pooling = Pooling::kPooler;
  requests[0].masked = masked;
  requests[0].predictions = 3;
  const Result mlm = RunBatch(*MakeEngine(testing::LoadText("lion_s_mlm"), {}).value(), requests)[0];
  EXPECT_TRUE(mlm.logits.empty() && mlm.embedding.empty());
  EXPECT_EQ(mlm.predictions.size(), 3u);
  const Result classifier = RunBatch(*MakeEngine(testing::LoadText("nova_inputdep_cls"), {}).value(), requests)[0];
  EXPECT_TRUE(classifier.predictions.empty());
  EXPECT_EQ(classifier.logits.size(), 3u);
  EXPECT_EQ(classifier.embedding.size(), 48u);
}

TEST(TextEngine, TextsTheModelCannotTakeAreRefusedAndSayWhy) {
  auto engine = MakeEngine(testing::LoadText("lion_s_padded_vocab_untied"), {}).value();
  auto limited = MakeEngine(testing::LoadText("softmax_bert_mlm"), {}).value();
  const auto refusal = [](const Engine& refuser, const Text& text) {
    const absl::Status status = refuser.CheckText({.ids = text.ids, .type_ids = text.type_ids});
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(*engine, {{0, 202}, {1, 0}}), "");
  EXPECT_EQ(refusal(*engine, {{}, {}}), "the text has no tokens");
  EXPECT_EQ(refusal(*engine, {{1, 203}, {}}), "id 203 of token 1 is not in [0, 203)");
  EXPECT_EQ(refusal(*engine, {{-1}, {}}), "id -1 of token 0 is not in [0, 203)");
  EXPECT_EQ(refusal(*engine, {{1, 2}, {0, 2}}), "type id 2 of token 1 is not in [0, 2)");
  EXPECT_EQ(refusal(*engine, {{1, 2}, {0, -1}}), "type id -1 of token 1 is not in [0, 2)");
  EXPECT_EQ(refusal(*engine, {{1, 2}, {0}}), "there are 1 type ids for 2 tokens: one for each, or none, is expected");
  EXPECT_EQ(refusal(*limited, {std::vector<int32_t>(64, 1), {}}), "");
  EXPECT_EQ(refusal(*limited, {std::vector<int32_t>(65, 1), {}}), "the text has 65 tokens, the model has 64 positions");
  EXPECT_EQ(refusal(*engine, {std::vector<int32_t>(5000, 1), {}}), "");
  EXPECT_EQ(engine->CountTokens(224, 224).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TextEngine, ABatchTooLargeIsRefusedAndAnEmptyOneIsNot) {
  auto engine = MakeEngine(testing::LoadText("lion_s_mlm"), {.max_batch_tokens = 100}).value();
  const std::vector<Text> texts = {{std::vector<int32_t>(101, 1), {}}};
  std::vector<Result> results(1);
  const absl::Status status = engine->Forward(testing::RequestsOf(texts), results);
  EXPECT_TRUE(absl::StrContains(status.message(), "101")) << status;
  EXPECT_TRUE(engine->Forward({}, {}).ok());
}

// Every kind of output, of a text with token 7 and of one without.
void ExpectOnlyTheFirstFails(const LoadedModel& model, bool second_fails, const std::string& what) {
  const std::vector<Text> texts = {{{2, 7, 3}, {}}, {{2, 8, 3}, {}}};
  const std::vector<int32_t> masked = {1};
  for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBFloat16}) {
    auto engine = MakeEngine(model, {.compute_type = type});
    if (type == ComputeType::kBFloat16 && !engine.ok()) continue;  // not every machine has it
    ASSERT_TRUE(engine.ok()) << engine.status();
    for (const char* output : {"mean", "rows", "logits", "predictions"}) {
      std::vector<Request> requests = testing::RequestsOf(texts);
      for (Request& request : requests) {
        request.embedding = output == std::string("mean") || output == std::string("rows");
        request.pooling = output == std::string("rows") ? Pooling::kNone : Pooling::kMean;
        request.logits = output == std::string("logits");
        request.masked = masked;
        request.predictions = output == std::string("predictions") ? 3 : 0;
      }
      if ((requests[0].logits && model.config.classes == 0) || (requests[0].predictions && !model.config.masked_lm)) {
        continue;
      }
      std::vector<Result> results(2);
      ASSERT_TRUE((*engine)->Forward(requests, results).ok());
      EXPECT_EQ(results[0].status.code(), absl::StatusCode::kInternal) << what << " " << output;
      EXPECT_TRUE(results[0].embedding.empty() && results[0].logits.empty() && results[0].predictions.empty());
      EXPECT_EQ(results[1].status.ok(), !second_fails) << what << " " << output;
    }
  }
}

TEST(TextEngine, ANaNOfOneTokenFailsOnlyTheTextsThatHoldIt) {
  for (const char* name : kVariants) {
    LoadedModel model = testing::LoadText(name);
    // The decoder's view of the same table stays as it is: a NaN in there is in every text's predictions.
    testing::ReplacedTensor words(model.text.word_embeddings);
    words.values()[7 * model.config.width + 5] = std::nanf("");
    ExpectOnlyTheFirstFails(model, false, name);
  }
}

TEST(TextEngine, ANaNOfALayerNeverLeavesAsANumber) {
  for (const char* name : {"lion_s_mlm", "lion_lit_mlm", "nova_inputdep_cls", "softmax_bert_mlm"}) {
    LoadedModel model = testing::LoadText(name);
    TextLayerWeights& layer = model.text.layers[1];
    for (TensorView* view : {&layer.query.weight, &layer.key.bias, &layer.value.weight, &layer.gate.weight,
                             &layer.gate.bias, &layer.mixer_norm.weight, &layer.attention_output.bias,
                             &layer.attention_norm.bias, &layer.intermediate.weight, &layer.output.weight,
                             &layer.output_norm.weight, &model.text.embeddings_norm.bias}) {
      if (view->data == nullptr) continue;
      testing::ReplacedTensor replaced(*view);
      replaced.values()[replaced.values().size() / 2] = std::nanf("");
      ExpectOnlyTheFirstFails(model, true, name);
    }
  }
}

TEST(TextEngine, ANaNOfAHeadFailsOnlyWhatComesFromIt) {
  LoadedModel model = testing::LoadText("lion_s_mlm");
  for (TensorView* view : {&model.text.mlm_bias, &model.text.mlm_dense.weight, &model.text.mlm_norm.bias}) {
    testing::ReplacedTensor replaced(*view);
    replaced.values()[11] = std::nanf("");
    auto engine = MakeEngine(model, {}).value();
    const std::vector<Text> texts(2, Text{{2, 7, 3}, {}});
    const std::vector<int32_t> masked = {1};
    std::vector<Request> requests = testing::RequestsOf(texts);
    requests[0].embedding = requests[1].embedding = true;
    requests[0].masked = masked;
    requests[0].predictions = 2;
    std::vector<Result> results(2);
    ASSERT_TRUE(engine->Forward(requests, results).ok());
    EXPECT_EQ(results[0].status.code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(results[1].status.ok());
  }
}

}  // namespace
}  // namespace lion
