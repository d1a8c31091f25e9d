// Loading a model beside those that serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "server/start_up.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::HasSubstr;

class StartModelTest : public ::testing::Test {
 protected:
  StartUpFailure Start(const ModelStart& start) {
    const SharedResources shared = {.clock = &clock_,
                                    .decode_pool = &pool_,
                                    .decode_bytes = &bytes_,
                                    .tokenize_pool = &pool_,
                                    .device_turn = &device_turn_};
    model_.reset();
    return StartModel(
        start, options_, shared, [](const std::string&, const absl::Status&) {}, &model_);
  }
  ModelStart Beside(int64_t available_bytes) const {
    return {.spec = {"m", testing::SourcePath("tests/golden/vision/lit_normal")},
            .version = "7",
            .beside = true,
            .available_bytes = available_bytes};
  }

  SteadyClock clock_;
  FairBudget bytes_{1 << 20}, device_turn_{1};
  PreparePool pool_{{.threads = 1}, &clock_, nullptr};
  StartUpOptions options_ = {.engine = {.threads = 1}, .service = {.max_input_tokens = 4096}, .warm_up_beside_ms = 0};
  std::unique_ptr<ModelService> model_;
};

TEST_F(StartModelTest, TakesTheVersionThatItIsGiven) {
  const StartUpFailure failure = Start(Beside(int64_t{1} << 30));
  ASSERT_EQ(failure.kind, StartUpFailure::Kind::kNone) << failure.status;
  EXPECT_EQ(model_->info().version, "7");
}

TEST_F(StartModelTest, IsRefusedWhereItsMemoryIsNotFree) {
  ASSERT_EQ(Start(Beside(int64_t{1} << 30)).kind, StartUpFailure::Kind::kNone);
  const int64_t activations = model_->engine().max_batch_tokens() * model_->engine().bytes_per_token();
  const StartUpFailure failure = Start(Beside(activations));
  EXPECT_EQ(failure.kind, StartUpFailure::Kind::kDevice);
  EXPECT_TRUE(absl::IsResourceExhausted(failure.status)) << failure.status;
  EXPECT_THAT(failure.status.message(), HasSubstr("MiB are free: lower --max-input-tokens"));
  EXPECT_EQ(model_, nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(Start(Beside(0)).status));
  // What it really takes, file included, is enough.
  EXPECT_EQ(Start(Beside(activations + (int64_t{4} << 20))).kind, StartUpFailure::Kind::kNone);
}

TEST_F(StartModelTest, IsGivenUpBetweenTheSteps) {
  const std::atomic<bool> cancelled = true;
  ModelStart start = Beside(int64_t{1} << 30);
  start.cancelled = &cancelled;
  EXPECT_TRUE(absl::IsCancelled(Start(start).status));
  EXPECT_EQ(model_, nullptr);
}

}  // namespace
}  // namespace lion
