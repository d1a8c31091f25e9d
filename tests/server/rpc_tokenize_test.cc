// Tokenize, over the wire.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/server/rpc_fixture.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RpcTokenizeTest : public RpcTest {
 protected:
  static v1::TokenizeRequest Texts(const std::vector<std::string>& texts) {
    return TextsOf<v1::TokenizeRequest>(texts);
  }
  static void ExpectError(const Answer& answer, grpc::StatusCode code, const ::testing::Matcher<std::string>& message) {
    EXPECT_EQ(answer.status.error_code(), code) << answer.status.error_message();
    EXPECT_THAT(answer.status.error_message(), message);
  }
  // "the[0,3)", with ":1" behind it for type 1.
  static std::vector<std::string> Describe(const v1::TokenizedInput& input) {
    std::vector<std::string> tokens;
    for (const v1::TokenizedInput::Token& token : input.tokens()) {
      tokens.push_back(absl::StrCat(token.text(), "[", token.start_byte(), ",", token.end_byte(), ")",
                                    token.type_id() == 0 ? "" : absl::StrCat(":", token.type_id())));
    }
    return tokens;
  }
};

TEST_F(RpcTokenizeTest, GivesTokensWithTheirPlaces) {
  PuppetEngine* engine = ServeTexts();
  const Answer answer = Tokenize(Texts({"The lion's", "\u00e9a"}));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.tokenize.results_size(), 2);
  EXPECT_THAT(Describe(answer.tokenize.results(0)),
              ElementsAre("[CLS][0,0)", "the[0,3)", "lion[4,8)", "'[8,9)", "s[9,10)", "[SEP][0,0)"));
  EXPECT_EQ(answer.tokenize.results(0).tokens(1).id(), 47);
  EXPECT_THAT(Describe(answer.tokenize.results(1)), ElementsAre("[CLS][0,0)", "e[0,2)", "##a[2,3)", "[SEP][0,0)"))
      << "bytes of the text as it was sent";
  EXPECT_EQ(engine->batches(), 0);
}

TEST_F(RpcTokenizeTest, PairsAndTextsWithoutSpecialTokens) {
  ServeTexts();
  v1::TokenizeRequest request;
  request.add_inputs()->mutable_text_pair()->set_first("the");
  request.mutable_inputs(0)->mutable_text_pair()->set_second("a lion");
  EXPECT_THAT(Describe(Tokenize(request).tokenize.results(0)),
              ElementsAre("[CLS][0,0)", "the[0,3)", "[SEP][0,0)", "a[0,1):1", "lion[2,6):1", "[SEP][0,0):1"));
  request.set_no_special_tokens(true);
  request.add_inputs()->set_text(" ");
  const Answer answer = Tokenize(request);
  EXPECT_THAT(Describe(answer.tokenize.results(0)), ElementsAre("the[0,3)", "a[0,1):1", "lion[2,6):1"));
  EXPECT_EQ(answer.tokenize.results(1).tokens_size(), 0);
}

TEST_F(RpcTokenizeTest, TheMaskTokenIsTextHere) {
  ServeTexts();
  EXPECT_EQ(Tokenize(Texts({"[MASK]"})).tokenize.results(0).tokens_size(), 8);
}

TEST_F(RpcTokenizeTest, NoLimitOfTheModelApplies) {
  ServeTexts({.max_input_tokens = 4});
  EXPECT_EQ(Tokenize(Texts({"a b c d e f g"})).tokenize.results(0).tokens_size(), 9);
}

TEST_F(RpcTokenizeTest, NeedsNoDevice) {
  PuppetEngine* engine = ServeTexts();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(TextsOf({"the lion"}));
  engine->AwaitEntered(1);
  EXPECT_TRUE(Tokenize(Texts({"the lion"})).status.ok());
  engine->Release();
}

TEST_F(RpcTokenizeTest, BadInputs) {
  ServeTexts({.max_inputs_per_call = 4, .max_text_bytes = 100});
  ExpectError(Tokenize(Texts({})), grpc::INVALID_ARGUMENT, HasSubstr("inputs is empty"));
  ExpectError(Tokenize(Texts({"a", "a", "a", "a", "a"})), grpc::INVALID_ARGUMENT, HasSubstr("--max-inputs-per-call"));
  ExpectError(Tokenize(Texts({"a", ""})), grpc::INVALID_ARGUMENT, StartsWith("input 1: the text is empty"));
  ExpectError(Tokenize(Texts({"a", std::string(101, 'a')})), grpc::INVALID_ARGUMENT,
              AllOf(StartsWith("input 1: "), HasSubstr("--max-text-bytes")));
  ExpectError(Tokenize(TokensOf<v1::TokenizeRequest>({1})), grpc::INVALID_ARGUMENT,
              StartsWith("input 0: tokens were given"));
  v1::TokenizeRequest image;
  image.add_inputs()->set_image("x");
  ExpectError(Tokenize(image), grpc::INVALID_ARGUMENT, HasSubstr("takes text"));
  v1::TokenizeRequest unknown = Texts({"a"});
  unknown.set_model("nope");
  ExpectError(Tokenize(unknown), grpc::NOT_FOUND, HasSubstr("'nope'"));

  v1::TokenizeRequest partial = Texts({"a", "", "b"});
  *partial.add_inputs() = TokensOf({1}).inputs(0);
  partial.set_partial_results(true);
  const Answer answer = Tokenize(partial);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.tokenize.results(0).tokens_size(), 3);
  EXPECT_EQ(answer.tokenize.results(1).error().code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(answer.tokenize.results(2).tokens_size(), 3);
  EXPECT_EQ(answer.tokenize.results(3).error().code(), grpc::INVALID_ARGUMENT);
}

TEST_F(RpcTokenizeTest, MoreTextThanOtherCallsCanWaitForIsRefused) {
  ServeTexts();
  // The tokens of so many spaces are none, but those of other bytes would be as many.
  const std::string most((1 << 19) - 3, ' ');
  EXPECT_EQ(Tokenize(Texts({most})).tokenize.results(0).tokens_size(), 2);
  ExpectError(Tokenize(Texts({most + " "})), grpc::INVALID_ARGUMENT,
              AllOf(HasSubstr("524286 bytes of text"), HasSubstr("524285 for 1 inputs: split the call")));
  ExpectError(Tokenize(Texts({most, "a"})), grpc::INVALID_ARGUMENT, HasSubstr("524282 for 2 inputs"));
}

TEST_F(RpcTokenizeTest, MoreTextThanAReplyHoldsIsRefusedByItsBytes) {
  ServeTexts({.max_reply_bytes = 19'200});
  ExpectError(Tokenize(Texts({std::string(98, '.')})), grpc::INVALID_ARGUMENT,
              AllOf(HasSubstr("the tokens of 98 bytes of text"), HasSubstr("at most 100 bytes in a call")));
  EXPECT_TRUE(Tokenize(Texts({std::string(97, '.')})).status.ok());
}

}  // namespace
}  // namespace lion
