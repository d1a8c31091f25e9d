#include "client/cli/bench/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/speed.h"
#include "tests/support/golden.h"

namespace lion::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

LocalFlags Of(const std::string& model) {
  LocalFlags flags;
  flags.model = testing::SourcePath("tests/golden/" + model);
  flags.engine.threads = 1;
  flags.engine.compute_type = ComputeType::kFloat32;
  flags.batches = {1, 3};
  flags.seconds = 0;
  return flags;
}

TEST(LocalBenchTest, HasARowForEverySizeAndBatchOfImages) {
  LocalFlags flags = Of("vision/selective_s");
  flags.sizes = "32,48x64";
  const absl::StatusOr<LocalReport> report = MeasureLocal(flags);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->variant, "LION-S");
  EXPECT_EQ(report->compute_type, "float32");
  EXPECT_EQ(report->threads, 1);
  EXPECT_GT(report->bytes_per_token, 0);
  ASSERT_THAT(report->rows, SizeIs(4));
  EXPECT_EQ(report->rows[0].input, "32x32");
  EXPECT_EQ(report->rows[3].input, "48x64");
  EXPECT_EQ(report->rows[3].batch, 3);
  EXPECT_EQ(report->rows[3].tokens, 3 * report->rows[2].tokens);
  for (const LocalRow& row : report->rows) {
    EXPECT_GT(row.forward_ms, 0);
    EXPECT_GT(row.limit_ms, 0);
    EXPECT_GE(row.repeats, 1);
    EXPECT_NEAR(row.tokens_per_s, 1e3 * static_cast<double>(row.tokens) / row.forward_ms, 1e-6 * row.tokens_per_s);
  }
}

TEST(LocalBenchTest, HasARowForEveryLengthOfTexts) {
  LocalFlags flags = Of("text/lion_s_mlm");
  flags.lengths = {5, 70};
  const absl::StatusOr<LocalReport> report = MeasureLocal(flags);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->rows, SizeIs(4));
  EXPECT_EQ(report->rows[1].input, "5 tokens");
  EXPECT_EQ(report->rows[1].tokens, 15);
  EXPECT_EQ(report->rows[2].tokens, 70);
}

TEST(LocalBenchTest, RefusesWhatTheModelDoesNotTake) {
  LocalFlags flags = Of("vision/selective_s");
  flags.sizes = "1x32";
  EXPECT_THAT(MeasureLocal(flags).status().message(), HasSubstr("1x32: smaller than one patch"));
  flags = Of("vision/selective_s");
  flags.lengths = {3};
  EXPECT_THAT(MeasureLocal(flags).status().message(), HasSubstr("this is a vision model"));
  flags = Of("text/lion_s_mlm");
  flags.sizes = "32";
  EXPECT_THAT(MeasureLocal(flags).status().message(), HasSubstr("this is a text model"));
  flags = Of("text/softmax_bert_mlm");
  flags.lengths = {100'000};
  EXPECT_THAT(MeasureLocal(flags).status().message(), HasSubstr("--lengths 100000: the model has "));
  EXPECT_EQ(MeasureLocal(Of("vision/no_such_case")).status().code(), absl::StatusCode::kNotFound);
}

// Of one small layer; its forward pass throws.
class ThrowingEngine : public Engine {
 public:
  ThrowingEngine() {
    config_.modality = Modality::kText;
    config_.width = 8;
    config_.mlp_width = 32;
    config_.depth = 1;
  }
  absl::Status Forward(std::span<const Request>, std::span<Result>) override { throw std::runtime_error("it rains"); }
  absl::StatusOr<int64_t> CountTokens(int64_t, int64_t) const override { return absl::InvalidArgumentError("text"); }
  absl::Status CheckText(const TextInput&) const override { return absl::OkStatus(); }
  const ModelConfig& config() const override { return config_; }
  std::string device() const override { return "none"; }
  std::string isa() const override { return "none"; }
  ComputeType compute_type() const override { return ComputeType::kFloat32; }
  MixerForm mixer() const override { return MixerForm::kChunk; }
  int threads() const override { return 1; }
  int64_t max_batch_tokens() const override { return 100; }
  int64_t weight_bytes() const override { return 0; }
  int64_t bytes_per_token() const override { return 0; }

 private:
  ModelConfig config_;
};

TEST(LocalBenchTest, WhatTheEngineThrowsIsNotBlamedOnTheProducts) {
  ThrowingEngine engine;
  const std::vector<int32_t> ids(3);
  Request request;
  request.text.ids = ids;
  EXPECT_EQ(MeasureSpeed(engine, {&request, 1}, {}).status(), absl::InternalError("the forward pass failed: it rains"));
}

TEST(LocalBenchTest, ReportsRatiosForPeopleAndNanosecondsForPrograms) {
  LocalReport report = {.model = "some/folder\x1b",
                        .variant = "LION-D",
                        .isa = "avx512",
                        .compute_type = "bfloat16",
                        .threads = 2,
                        .bytes_per_token = 3072,
                        .weight_bytes = 11 << 20};
  report.rows.push_back({.input = "224x224",
                         .batch = 8,
                         .tokens = 1576,
                         .forward_ms = 12.5,
                         .limit_ms = 10,
                         .tokens_per_s = 126'080,
                         .repeats = 7});
  const std::string text = LocalText(report);
  EXPECT_THAT(text, HasSubstr("some/folder?: LION-D, bfloat16, avx512, 2 threads; weights 11.0 MiB"));
  EXPECT_THAT(text, HasSubstr("224x224"));
  EXPECT_THAT(text, HasSubstr("1.25"));
  const auto json = nlohmann::json::parse(LocalJson(report));
  EXPECT_EQ(json["rows"][0]["forward_ns"], 12'500'000);
  EXPECT_EQ(json["rows"][0]["products_ns"], 10'000'000);
  EXPECT_EQ(json["rows"][0]["tokens"], 1576);
}

}  // namespace
}  // namespace lion::bench
