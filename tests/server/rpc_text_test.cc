// What good calls to a model of texts answer.
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/rpc_fixture.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

class RpcTextTest : public RpcTest {
 protected:
  // The puppet's answer to these ids, all of type 0.
  static float ValueOf(const std::vector<int64_t>& ids) {
    int64_t sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) sum += static_cast<int64_t>(i + 1) * ids[i];
    return static_cast<float>(sum);
  }
  static float ValueOf(const v1::EmbedResult& result) { return result.embedding().values(0); }
};

// Of the vocabulary.
constexpr int64_t kCls = 2;
constexpr int64_t kSep = 3;
constexpr int64_t kThe = 47;
constexpr int64_t kLion = 76;
constexpr int64_t kRiver = 79;

TEST_F(RpcTextTest, EmbedsTextsInTheOrderOfTheInputs) {
  ServeTexts();
  const Answer answer = Embed(TextsOf({"the lion", "River", "lion"}));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.embed.results_size(), 3);
  EXPECT_EQ(ValueOf(answer.embed.results(0)), ValueOf({kCls, kThe, kLion, kSep}));
  EXPECT_EQ(ValueOf(answer.embed.results(1)), ValueOf({kCls, kRiver, kSep}));
  EXPECT_EQ(ValueOf(answer.embed.results(2)), ValueOf({kCls, kLion, kSep}));
  EXPECT_EQ(answer.embed.results(0).tokens(), 4u);
  EXPECT_EQ(answer.embed.results(1).tokens(), 3u);
  EXPECT_FALSE(answer.embed.results(0).truncated());
  EXPECT_GT(answer.embed.timing().preprocess_ns(), 0u);
  EXPECT_LE(answer.embed.timing().batch_tokens(), 10u) << "exact, not what the bytes could have been";
}

TEST_F(RpcTextTest, ThePairsSecondTextIsOfTypeOne) {
  ServeTexts();
  v1::EmbedRequest request;
  request.add_inputs()->mutable_text_pair()->set_first("the");
  request.mutable_inputs(0)->mutable_text_pair()->set_second("lion");
  request.add_inputs()->mutable_text_pair()->set_first("the");
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(ValueOf(answer.embed.results(0)), ValueOf({kCls, kThe, kSep, kLion, kSep}) + 2000);
  EXPECT_EQ(ValueOf(answer.embed.results(1)), ValueOf({kCls, kThe, kSep, kSep}) + 1000) << "an empty second";
}

TEST_F(RpcTextTest, TokenIdsAreTakenAsTheyAre) {
  ServeTexts();
  v1::EmbedRequest request = TokensOf({kThe, 199, 0});
  request.mutable_inputs(0)->mutable_tokens()->mutable_type_ids()->Add(0);
  request.mutable_inputs(0)->mutable_tokens()->mutable_type_ids()->Add(1);
  request.mutable_inputs(0)->mutable_tokens()->mutable_type_ids()->Add(1);
  *request.add_inputs() = TokensOf({kLion}).inputs(0);
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(ValueOf(answer.embed.results(0)), ValueOf({kThe, 199, 0}) + 2000);
  EXPECT_EQ(answer.embed.results(0).tokens(), 3u);
  EXPECT_EQ(ValueOf(answer.embed.results(1)), kLion);
  EXPECT_EQ(answer.embed.timing().preprocess_ns(), 0u) << "nothing was tokenized";
}

TEST_F(RpcTextTest, ATextThatCleansToNothingIsItsSpecialTokens) {
  ServeTexts();
  const Answer answer = Embed(TextsOf({" ", "\n\t\r", std::string("\0", 1), "\u200b", "\ufffd", "\u00a0 \u3000"}));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  for (const v1::EmbedResult& result : answer.embed.results()) {
    EXPECT_EQ(result.tokens(), 2u);
    EXPECT_EQ(ValueOf(result), ValueOf({kCls, kSep}));
  }
}

TEST_F(RpcTextTest, SpecialTokensInATextAreText) {
  ServeTexts();
  // [UNK] m ##a ##s ##k [UNK]
  EXPECT_EQ(Embed(TextsOf({"[MASK]"})).embed.results(0).tokens(), 8u);
  EXPECT_GT(Embed(TextsOf({"[CLS]"})).embed.results(0).tokens(), 3u);
}

TEST_F(RpcTextTest, AWordTooLongToReadIsOneToken) {
  ServeTexts();
  const Answer answer = Embed(TextsOf({std::string(1'000'000, 'A'), std::string(100, 'a')}));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.embed.results(0).tokens(), 3u);
  EXPECT_EQ(answer.embed.results(1).tokens(), 102u);
}

TEST_F(RpcTextTest, TextsAreCutAtTheSideThatWasAskedFor) {
  ServeTexts({.max_input_tokens = 5});
  v1::EmbedRequest request = TextsOf({"the lion river the the lion", "the lion river"});
  request.mutable_options()->set_truncation(v1::TRUNCATION_END);
  Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(ValueOf(answer.embed.results(0)), ValueOf({kCls, kThe, kLion, kRiver, kSep}));
  EXPECT_TRUE(answer.embed.results(0).truncated());
  EXPECT_EQ(answer.embed.results(0).tokens(), 5u);
  EXPECT_EQ(ValueOf(answer.embed.results(1)), ValueOf({kCls, kThe, kLion, kRiver, kSep}));
  EXPECT_FALSE(answer.embed.results(1).truncated()) << "exactly as long as it may be";
  request.mutable_options()->set_truncation(v1::TRUNCATION_START);
  answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(ValueOf(answer.embed.results(0)), ValueOf({kCls, kThe, kThe, kLion, kSep}));
  EXPECT_TRUE(answer.embed.results(0).truncated());
}

TEST_F(RpcTextTest, OfAPairTheLongerTextIsCut) {
  ServeTexts({.max_input_tokens = 6});
  v1::EmbedRequest request;
  request.add_inputs()->mutable_text_pair()->set_first("the the the the the the");
  request.mutable_inputs(0)->mutable_text_pair()->set_second("lion");
  request.mutable_options()->set_truncation(v1::TRUNCATION_END);
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(ValueOf(answer.embed.results(0)), ValueOf({kCls, kThe, kThe, kSep, kLion, kSep}) + 2000);
  EXPECT_TRUE(answer.embed.results(0).truncated());
}

TEST_F(RpcTextTest, TheServersOwnTruncationIsForCallsThatLeaveIt) {
  ServeTexts({.max_input_tokens = 4, .truncation = TextTruncation::kStart});
  v1::EmbedRequest request = TextsOf({"the lion river"});
  EXPECT_EQ(ValueOf(Embed(request).embed.results(0)), ValueOf({kCls, kLion, kRiver, kSep}));
  request.mutable_options()->set_truncation(v1::TRUNCATION_END);
  EXPECT_EQ(ValueOf(Embed(request).embed.results(0)), ValueOf({kCls, kThe, kLion, kSep}));
  request.mutable_options()->set_truncation(v1::TRUNCATION_NONE);
  EXPECT_EQ(Embed(request).status.error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(RpcTextTest, EveryPoolingOfTheModel) {
  ServeTexts();
  v1::EmbedRequest request = TextsOf({"the lion"});
  for (const v1::Pooling pooling :
       {v1::POOLING_MEAN, v1::POOLING_CLS, v1::POOLING_POOLER, v1::POOLING_MAX, v1::POOLING_LAST}) {
    request.set_pooling(pooling);
    const Answer answer = Embed(request);
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.embed.results(0).embedding().rows(), 1u);
  }
  request.set_pooling(v1::POOLING_NONE);
  request.set_normalize(true);
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.embed.results(0).embedding().rows(), 4u);
  EXPECT_EQ(answer.embed.results(0).embedding().values_size(), 16);
}

TEST_F(RpcTextTest, ClassifiesTextsAndPairs) {
  ServeTexts();
  v1::ClassifyRequest request = TextsOf<v1::ClassifyRequest>({"the lion"});
  request.set_raw_scores(true);
  request.set_top_k(1);
  const Answer answer = Classify(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.classify.results(0).tokens(), 4u);
  EXPECT_EQ(answer.classify.results(0).classification().scores(0).label(), "one");
  EXPECT_EQ(answer.classify.results(0).classification().scores(0).score(), 2 * ValueOf({kCls, kThe, kLion, kSep}));
}

TEST_F(RpcTextTest, ARegressionHeadGivesTheValueItself) {
  auto engine = PuppetEngine::OfText();
  engine->mutable_config().regression = true;
  engine->mutable_config().classes = 1;
  engine->mutable_config().labels = {"score"};
  ServeTexts({}, std::move(engine));
  for (const bool raw : {false, true}) {
    v1::ClassifyRequest request = TextsOf<v1::ClassifyRequest>({"the lion"});
    request.set_raw_scores(raw);
    const Answer answer = Classify(request);
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    ASSERT_EQ(answer.classify.results(0).classification().scores_size(), 1);
    EXPECT_EQ(answer.classify.results(0).classification().scores(0).score(), ValueOf({kCls, kThe, kLion, kSep}));
    EXPECT_EQ(answer.classify.results(0).classification().scores(0).label(), "score");
  }
}

TEST_F(RpcTextTest, ModelsOfTextsDescribeThemselves) {
  auto engine = PuppetEngine::OfText();
  engine->mutable_config().max_positions = 512;
  engine->mutable_config().pooling = Pooling::kCls;
  engine->mutable_config().normalize = true;
  AddModel("text", {}, std::move(engine));
  auto regression = PuppetEngine::OfText();
  regression->mutable_config().masked_lm = false;
  regression->mutable_config().classes = 1;
  regression->mutable_config().regression = true;
  AddModel("score", {.max_input_tokens = 77}, std::move(regression));
  Serve();
  const auto get = [this](const char* name) {
    grpc::ClientContext context;
    v1::GetModelRequest request;
    request.set_model(name);
    v1::Model model;
    EXPECT_TRUE(stub_->GetModel(&context, request, &model).ok());
    return model;
  };
  const v1::Model text = get("text");
  EXPECT_EQ(text.modality(), v1::Model::MODALITY_TEXT);
  EXPECT_TRUE(text.masked_lm());
  EXPECT_EQ(text.max_tokens(), 512u);
  EXPECT_EQ(text.pooling(), v1::POOLING_CLS);
  EXPECT_TRUE(text.normalize());
  EXPECT_EQ(text.patch_order(), "");
  EXPECT_EQ(text.max_image_pixels(), 0u);
  EXPECT_THAT(text.tasks(), ElementsAre("embed", "classify", "fill-mask"));
  const v1::Model score = get("score");
  EXPECT_FALSE(score.masked_lm());
  EXPECT_EQ(score.max_tokens(), 77u);
  EXPECT_THAT(score.tasks(), ElementsAre("embed", "regress"));
}

TEST_F(RpcTextTest, OneServerHasModelsOfTextsAndOfImages) {
  AddModel("text", {}, PuppetEngine::OfText());
  AddModel("image");
  Serve();
  v1::EmbedRequest texts = TextsOf({"the lion"});
  texts.set_model("text");
  v1::EmbedRequest images = EmbedOf({7});
  images.set_model("image");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Answer answer = Embed(t % 2 == 0 ? texts : images);
        ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
        EXPECT_EQ(ValueOf(answer.embed.results(0)), t % 2 == 0 ? ValueOf({kCls, kThe, kLion, kSep}) : 7);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  texts.set_model("image");
  EXPECT_THAT(Embed(texts).status.error_message(), ::testing::HasSubstr("takes images"));
  images.set_model("text");
  EXPECT_THAT(Embed(images).status.error_message(), ::testing::HasSubstr("takes text"));
}

TEST_F(RpcTextTest, WarmUpRunsTextsOfGrowingNumber) {
  PuppetEngine* engine = AddModel("text", {.max_batch_tokens = 512}, PuppetEngine::OfText());
  std::vector<std::string> lines;
  const auto keep = [&lines](const std::string& line) { lines.push_back(line); };
  ASSERT_TRUE(models_[0]->WarmUp(int64_t{3600} * 1'000'000'000, kNever / 2, keep, keep).ok());
  EXPECT_EQ(engine->inputs(), 1 + 2 + 4);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[2], ::testing::HasSubstr("4 inputs, 512 tokens"));
}

}  // namespace
}  // namespace lion
