// What good calls answer.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/rpc/convert.h"
#include "tests/server/rpc_fixture.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;

using RpcResultsTest = RpcTest;

TEST_F(RpcResultsTest, EmbedsInTheOrderOfTheInputs) {
  ServeOne();
  v1::EmbedRequest request = EmbedOf({3, 1, 2});
  request.set_request_id("abc");
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.embed.results_size(), 3);
  EXPECT_THAT(answer.embed.results(0).embedding().values(), ElementsAre(3, -3, 3, 0));
  EXPECT_THAT(answer.embed.results(1).embedding().values(), ElementsAre(1, -1, 1, 0));
  EXPECT_THAT(answer.embed.results(2).embedding().values(), ElementsAre(2, -2, 2, 0));
  EXPECT_EQ(answer.embed.results(0).embedding().rows(), 1u);
  EXPECT_EQ(answer.embed.results(0).embedding().dimensions(), 4u);
  EXPECT_EQ(answer.embed.results(0).tokens(), 5u);
  EXPECT_FALSE(answer.embed.results(0).truncated());
  EXPECT_EQ(answer.embed.model(), "puppet");
  EXPECT_EQ(answer.embed.model_version(), "1");
  EXPECT_EQ(answer.embed.request_id(), "abc");
}

TEST_F(RpcResultsTest, TimingAddsUpAndNamesTheBatch) {
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(EmbedOf({1}));
  engine->AwaitEntered(1);
  calls.Start(EmbedOf({2, 3}));
  while (registry_.models()[0]->waiting_tokens() < 10) std::this_thread::yield();
  engine->Release();
  calls.AwaitAll();
  const v1::Timing& timing = calls.response(1).timing();
  EXPECT_EQ(timing.batch_inputs(), 2u);
  EXPECT_EQ(timing.batch_tokens(), 10u);
  EXPECT_GT(timing.queue_ns(), 0u);
  EXPECT_GT(timing.total_ns(), 0u);
  EXPECT_LE(timing.preprocess_ns() + timing.queue_ns() + timing.compute_ns(), timing.total_ns());
}

TEST_F(RpcResultsTest, IndicesAreTheCallsOwnUnderConcurrency) {
  ServeOne({.max_batch_tokens = 32});
  std::vector<std::thread> threads;
  for (int t = 0; t < 20; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 10; ++i) {
        const float a = static_cast<float>(100 * t + 2 * i);
        const Answer answer = Embed(EmbedOf({a, a + 1}));
        ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
        ASSERT_EQ(answer.embed.results_size(), 2);
        EXPECT_EQ(answer.embed.results(0).embedding().values(0), a);
        EXPECT_EQ(answer.embed.results(1).embedding().values(0), a + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RpcResultsTest, ACallLargerThanABatchIsSplit) {
  PuppetEngine* engine = ServeOne({.max_batch_tokens = 20});
  std::vector<float> values(50);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Answer answer = Embed(EmbedOf(values));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(answer.embed.results(i).embedding().values(0), static_cast<float>(i));
  EXPECT_EQ(engine->inputs(), 50);
  EXPECT_GE(engine->batches(), 13) << "four inputs of 5 tokens make a batch of 20";
  EXPECT_LE(answer.embed.timing().batch_tokens(), 20u);
}

TEST_F(RpcResultsTest, KeepsTheFirstDimensionsThenNormalizes) {
  ServeOne();
  v1::EmbedRequest request = EmbedOf({3});
  request.set_dimensions(2);
  request.set_normalize(true);
  const Answer answer = Embed(request);
  const float half = std::sqrt(0.5f);
  EXPECT_THAT(answer.embed.results(0).embedding().values(), ElementsAre(FloatEq(half), FloatEq(-half)));
  EXPECT_EQ(answer.embed.results(0).embedding().dimensions(), 2u);
}

TEST_F(RpcResultsTest, AZeroVectorStaysZeroWhenNormalized) {
  ServeOne();
  v1::EmbedRequest request = EmbedOf({0});
  request.set_normalize(true);
  EXPECT_THAT(Embed(request).embed.results(0).embedding().values(), ElementsAre(0, 0, 0, 0));
}

TEST_F(RpcResultsTest, HugeAndTinyVectorsNormalize) {
  ServeOne();
  v1::EmbedRequest request = EmbedOf({3e38f, 1e-38f});
  request.set_normalize(true);
  request.set_dimensions(2);
  const Answer answer = Embed(request);
  for (const v1::EmbedResult& result : answer.embed.results()) {
    EXPECT_THAT(result.embedding().values(), ElementsAre(FloatEq(std::sqrt(0.5f)), FloatEq(-std::sqrt(0.5f))));
  }
}

TEST_F(RpcResultsTest, UnsetNormalizeMeansTheModelsOwn) {
  auto engine = std::make_unique<PuppetEngine>();
  engine->mutable_config().normalize = true;
  ServeOne({}, std::move(engine));
  v1::EmbedRequest request = EmbedOf({5});
  EXPECT_THAT(Embed(request).embed.results(0).embedding().values(0), FloatEq(std::sqrt(1 / 3.0f)));
  request.set_normalize(false);
  EXPECT_EQ(Embed(request).embed.results(0).embedding().values(0), 5);
}

TEST_F(RpcResultsTest, PoolingNoneGivesOneRowPerTokenNormalizedRowByRow) {
  ServeOne();
  v1::EmbedRequest request = EmbedOf({1});
  request.set_pooling(v1::POOLING_NONE);
  request.set_dimensions(3);
  request.set_normalize(true);
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const v1::Embedding& embedding = answer.embed.results(0).embedding();
  EXPECT_EQ(embedding.rows(), 5u);
  EXPECT_EQ(embedding.dimensions(), 3u);
  ASSERT_EQ(embedding.values_size(), 15);
  for (int row = 0; row < 5; ++row) {
    const float third = 1.0f + static_cast<float>(row);
    EXPECT_FLOAT_EQ(embedding.values(3 * row + 2), third / std::sqrt(2 + third * third)) << row;
  }
}

TEST_F(RpcResultsTest, PackedBytesHoldTheSameValues) {
  ServeOne();
  v1::EmbedRequest request = EmbedOf({7});
  request.set_packed_bytes(true);
  const Answer answer = Embed(request);
  const v1::Embedding& embedding = answer.embed.results(0).embedding();
  EXPECT_EQ(embedding.values_size(), 0);
  ASSERT_EQ(embedding.data().size(), 16u);
  float values[4];
  std::memcpy(values, embedding.data().data(), sizeof(values));
  EXPECT_THAT(values, ElementsAre(7, -7, 7, 0));
}

TEST_F(RpcResultsTest, ClassifiesHighestFirst) {
  ServeOne();
  const Answer answer = Classify(ClassifyOf({1}));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const auto& scores = answer.classify.results(0).classification().scores();
  ASSERT_EQ(scores.size(), 3);
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(-1.0);
  EXPECT_EQ(scores[0].label(), "one");
  EXPECT_EQ(scores[0].index(), 1u);
  EXPECT_THAT(scores[0].score(), FloatNear(static_cast<float>(std::exp(2.0) / sum), 1e-6f));
  EXPECT_EQ(scores[1].label(), "zero");
  EXPECT_EQ(scores[2].label(), "two");
}

TEST_F(RpcResultsTest, TopKAndRawScores) {
  ServeOne();
  v1::ClassifyRequest request = ClassifyOf({-4});
  request.set_top_k(2);
  request.set_raw_scores(true);
  Answer answer = Classify(request);
  ASSERT_EQ(answer.classify.results(0).classification().scores_size(), 2);
  EXPECT_EQ(answer.classify.results(0).classification().scores(0).label(), "two");
  EXPECT_EQ(answer.classify.results(0).classification().scores(0).score(), 4);
  EXPECT_EQ(answer.classify.results(0).classification().scores(1).score(), -4);
  request.set_top_k(99);
  EXPECT_EQ(Classify(request).classify.results(0).classification().scores_size(), 3);
}

TEST_F(RpcResultsTest, ProbabilitiesOfHugeLogitsAreFinite) {
  ServeOne();
  const Answer answer = Classify(ClassifyOf({1e30f}));
  const auto& scores = answer.classify.results(0).classification().scores();
  ASSERT_EQ(scores.size(), 3);
  EXPECT_EQ(scores[0].score(), 1);
  EXPECT_EQ(scores[1].score(), 0);
  EXPECT_EQ(scores[1].label(), "zero") << "by the logit, where the probabilities are equal";
}

TEST_F(RpcResultsTest, ClassesWithoutLabelsAreNamedByIndex) {
  auto engine = std::make_unique<PuppetEngine>();
  engine->mutable_config().labels.clear();
  ServeOne({}, std::move(engine));
  EXPECT_EQ(Classify(ClassifyOf({1})).classify.results(0).classification().scores(0).label(), "1");
}

TEST_F(RpcResultsTest, EncodedImagesAreDecodedAndResized) {
  ServeOne();
  v1::EmbedRequest request;
  const std::string file = testing::ReadFile(testing::SourcePath("tests/golden/images/rgb.png"));
  request.add_inputs()->set_image(file);
  request.add_inputs()->set_image(file);
  request.mutable_options()->mutable_image()->set_resize(v1::ImageOptions::RESIZE_STRETCH);
  request.mutable_options()->mutable_image()->set_size(24);
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.embed.results(0).tokens(), 10u);
  EXPECT_EQ(answer.embed.results(0).embedding().values(0), answer.embed.results(1).embedding().values(0));
  EXPECT_GT(answer.embed.timing().preprocess_ns(), 0u);
}

TEST_F(RpcResultsTest, ACropRatioMeansWhatWasWritten) {
  ServeOne();
  const std::pair<float, double> ratios[] = {{0.8f, 0.8}, {0.6f, 0.6}, {0.1f, 0.1}, {0.875f, 0.875}, {1.0f, 1.0}};
  for (const auto& [sent, written] : ratios) {
    v1::EmbedRequest request = EmbedOf({1});
    request.mutable_options()->mutable_image()->set_crop_ratio(sent);
    InferenceCall call;
    ASSERT_TRUE(ConvertRequest(request, *registry_.models()[0], &call).ok());
    EXPECT_EQ(call.image.config.crop_ratio, written);
    EXPECT_EQ(static_cast<int>(224 / call.image.config.crop_ratio), static_cast<int>(224 / written));
  }
}

TEST_F(RpcResultsTest, Uint8PixelsReachTheEngineAsTheyAre) {
  ServeOne();
  v1::EmbedRequest request;
  v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
  pixels->set_height(8);
  pixels->set_width(9);
  pixels->set_type(v1::PixelTensor::TYPE_UINT8);
  pixels->set_data(std::string(3 * 8 * 9, '\x21'));
  EXPECT_EQ(Embed(request).embed.results(0).embedding().values(0), 33);
}

TEST_F(RpcResultsTest, LargeMessagesPass) {
  ServeOne();
  // 75 MB of float32, and back one row for each of 97,345 tokens.
  v1::EmbedRequest request = EmbedOf({1}, 2496);
  EXPECT_GT(request.ByteSizeLong(), 74'000'000u);
  request.set_pooling(v1::POOLING_NONE);
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.embed.results(0).tokens(), 97'345u);
  EXPECT_EQ(answer.embed.results(0).embedding().values_size(), 4 * 97'345);
  const Answer five_mib = Embed(EmbedOf({1}, 664));
  EXPECT_TRUE(five_mib.status.ok()) << five_mib.status.error_message();
}

TEST_F(RpcResultsTest, ModelsDescribeThemselves) {
  AddModel("b");
  AddModel("a");
  Serve();
  grpc::ClientContext list_context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(stub_->ListModels(&list_context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 2);
  EXPECT_EQ(list.models(0).name(), "a");
  EXPECT_EQ(list.models(1).name(), "b");

  grpc::ClientContext get_context;
  v1::GetModelRequest request;
  request.set_model("b");
  v1::Model model;
  ASSERT_TRUE(stub_->GetModel(&get_context, request, &model).ok());
  EXPECT_EQ(model.name(), "b");
  EXPECT_EQ(model.version(), "1");
  EXPECT_EQ(model.modality(), v1::Model::MODALITY_VISION);
  EXPECT_EQ(model.variant(), "LION-S");
  EXPECT_EQ(model.patch_order(), "normal");
  EXPECT_EQ(model.parameters(), 42u);
  EXPECT_EQ(model.embedding_dimensions(), 4u);
  EXPECT_THAT(model.labels(), ElementsAre("zero", "one", "two"));
  EXPECT_EQ(model.max_tokens(), 1u << 20);
  EXPECT_EQ(model.image_size(), 16u);
  EXPECT_EQ(model.patch_size(), 8u);
  EXPECT_EQ(model.device(), "puppet");
  EXPECT_EQ(model.compute_type(), "float32");
  EXPECT_EQ(model.weight_bytes(), 1234u);
  EXPECT_EQ(model.bytes_per_token(), 56u);
  EXPECT_EQ(model.weights(), "puppet.pth");
  EXPECT_EQ(model.pooling(), v1::POOLING_MEAN);
  EXPECT_EQ(model.image().resize(), v1::ImageOptions::RESIZE_CENTER_CROP);
  EXPECT_EQ(model.image_mean_size(), 3);
  EXPECT_EQ(model.max_image_pixels(), 256u << 20);
  EXPECT_THAT(model.tasks(), ElementsAre("embed", "classify"));
}

}  // namespace
}  // namespace lion
