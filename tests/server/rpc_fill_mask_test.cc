// FillMask, over the wire.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/server/rpc_fixture.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMask = 4;

class RpcFillMaskTest : public RpcTest {
 protected:
  static v1::FillMaskRequest Texts(const std::vector<std::string>& texts) {
    return TextsOf<v1::FillMaskRequest>(texts);
  }
  static void ExpectError(const Answer& answer, grpc::StatusCode code, const ::testing::Matcher<std::string>& message) {
    EXPECT_EQ(answer.status.error_code(), code) << answer.status.error_message();
    EXPECT_THAT(answer.status.error_message(), message);
  }
};

TEST_F(RpcFillMaskTest, PredictsFiveTokensForEachMask) {
  ServeTexts();
  v1::FillMaskRequest request = Texts({"the [MASK] of the [MASK]", "[MASK]"});
  request.set_request_id("abc");
  const Answer answer = FillMask(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.fill.model(), "puppet");
  EXPECT_EQ(answer.fill.model_version(), "1");
  EXPECT_EQ(answer.fill.request_id(), "abc");
  EXPECT_GT(answer.fill.timing().total_ns(), 0u);
  ASSERT_EQ(answer.fill.results_size(), 2);
  EXPECT_EQ(answer.fill.results(0).tokens(), 7u);
  ASSERT_EQ(answer.fill.results(0).filled().masks_size(), 2);
  EXPECT_EQ(answer.fill.results(0).filled().masks(0).position(), 2u);
  const v1::MaskPrediction& second = answer.fill.results(0).filled().masks(1);
  EXPECT_EQ(second.position(), 5u);
  ASSERT_EQ(second.predictions_size(), 5);
  EXPECT_EQ(second.predictions(0).id(), 5);
  EXPECT_EQ(second.predictions(0).token(), "a");
  EXPECT_EQ(second.predictions(0).probability(), 0.5f);
  EXPECT_EQ(second.predictions(4).id(), 9);
  EXPECT_EQ(second.predictions(4).token(), "e");
  EXPECT_EQ(answer.fill.results(1).filled().masks(0).position(), 1u);
}

TEST_F(RpcFillMaskTest, TokenIdsHaveTheirMasksById) {
  ServeTexts();
  v1::FillMaskRequest request = TokensOf<v1::FillMaskRequest>({kMask, 47, kMask});
  request.set_top_k(1);
  const Answer answer = FillMask(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.fill.results(0).filled().masks_size(), 2);
  EXPECT_EQ(answer.fill.results(0).filled().masks(0).position(), 0u);
  EXPECT_EQ(answer.fill.results(0).filled().masks(1).position(), 2u);
  EXPECT_EQ(answer.fill.results(0).filled().masks(1).predictions(0).token(), "[CLS]");
}

TEST_F(RpcFillMaskTest, PairsHaveMasksInBothTexts) {
  ServeTexts();
  v1::FillMaskRequest request;
  request.add_inputs()->mutable_text_pair()->set_first("[MASK]");
  request.mutable_inputs(0)->mutable_text_pair()->set_second("a [MASK]");
  const Answer answer = FillMask(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.fill.results(0).filled().masks_size(), 2);
  EXPECT_EQ(answer.fill.results(0).filled().masks(1).position(), 4u);
}

TEST_F(RpcFillMaskTest, MorePredictionsThanTokensAreAllTokens) {
  ServeTexts();
  v1::FillMaskRequest request = Texts({"[MASK]"});
  request.set_top_k(0xffffffffu);
  const Answer answer = FillMask(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.fill.results(0).filled().masks(0).predictions_size(), 200);
}

TEST_F(RpcFillMaskTest, AnInputWithoutAMaskNamesItself) {
  PuppetEngine* engine = ServeTexts();
  ExpectError(FillMask(Texts({"[MASK]", "the lion"})), grpc::INVALID_ARGUMENT,
              AllOf(StartsWith("input 1: "), HasSubstr("no mask token: want '[MASK]' in the text, or the id 4")));
  v1::FillMaskRequest tokens = Texts({"[MASK]"});
  *tokens.add_inputs() = TokensOf({1, 2}).inputs(0);
  ExpectError(FillMask(tokens), grpc::INVALID_ARGUMENT, StartsWith("input 1: the input has no mask token"));
  tokens.mutable_options()->set_partial_results(true);
  const Answer answer = FillMask(tokens);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_TRUE(answer.fill.results(0).has_filled());
  EXPECT_EQ(answer.fill.results(1).error().code(), grpc::INVALID_ARGUMENT);
  SetPixels(1, 16, tokens.mutable_inputs(1));
  EXPECT_THAT(FillMask(tokens).fill.results(1).error().message(), HasSubstr("takes text"));
  EXPECT_GE(engine->inputs(), 2);
}

TEST_F(RpcFillMaskTest, AMaskThatWasCutOffIsNoMask) {
  ServeTexts({.max_input_tokens = 5});
  v1::FillMaskRequest request = Texts({"the lion the lion [MASK]"});
  ExpectError(FillMask(request), grpc::INVALID_ARGUMENT, HasSubstr("7 tokens"));
  request.mutable_options()->set_truncation(v1::TRUNCATION_END);
  ExpectError(FillMask(request), grpc::INVALID_ARGUMENT, HasSubstr("(it was truncated)"));
  request.mutable_options()->set_truncation(v1::TRUNCATION_START);
  const Answer answer = FillMask(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.fill.results(0).filled().masks(0).position(), 3u);
  EXPECT_TRUE(answer.fill.results(0).truncated());
}

TEST_F(RpcFillMaskTest, MorePredictionsThanAReplyHoldsAreRefused) {
  PuppetEngine* engine = ServeTexts({.max_reply_bytes = 10'000});
  v1::FillMaskRequest request = TokensOf<v1::FillMaskRequest>(std::vector<int64_t>(100, kMask));
  request.set_top_k(1);
  ExpectError(FillMask(request), grpc::INVALID_ARGUMENT,
              AllOf(HasSubstr("1 predictions for each of up to 100 masks"), HasSubstr("10000 bytes")));
  EXPECT_EQ(engine->inputs(), 0);
  v1::FillMaskRequest text = Texts({"[MASK][MASK][MASK]"});
  text.set_top_k(100);
  ExpectError(FillMask(text), grpc::INVALID_ARGUMENT, HasSubstr("100 predictions for each of up to 3 masks"));
  text.set_top_k(20);
  EXPECT_TRUE(FillMask(text).status.ok());
}

TEST_F(RpcFillMaskTest, ANonFiniteResultFailsThatInputAlone) {
  ServeTexts();
  v1::FillMaskRequest request = Texts({"[MASK]", "queen [MASK]"});
  ExpectError(FillMask(request), grpc::INTERNAL, StartsWith("input 1: "));
  request.mutable_options()->set_partial_results(true);
  const Answer answer = FillMask(request);
  EXPECT_TRUE(answer.fill.results(0).has_filled());
  EXPECT_EQ(answer.fill.results(1).error().code(), grpc::INTERNAL);
}

}  // namespace
}  // namespace lion
