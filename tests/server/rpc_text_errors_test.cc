// What bad calls to a model of texts answer.
#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/server/rpc_fixture.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RpcTextErrorsTest : public RpcTest {
 protected:
  static void ExpectError(const grpc::Status& status, grpc::StatusCode code,
                          const ::testing::Matcher<std::string>& message) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), message);
  }
  // Two good inputs and then a bad one: nothing is computed, nothing stays reserved.
  void ExpectBadInput(PuppetEngine* engine, const v1::Input& input, const ::testing::Matcher<std::string>& message,
                      grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    v1::EmbedRequest request = TokensOf({1});
    *request.add_inputs() = TokensOf({2}).inputs(0);
    *request.add_inputs() = input;
    ExpectError(Embed(request).status, code, AllOf(StartsWith("input 2: "), message));
    EXPECT_EQ(engine->inputs(), 0);
    EXPECT_EQ(models()[0]->waiting_tokens(), 0);
  }
  static std::string Words(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "lion ";
    return text;
  }
};

TEST_F(RpcTextErrorsTest, AnEmptyTextNamesTheInput) {
  PuppetEngine* engine = ServeTexts();
  v1::Input input;
  input.set_text("");
  ExpectBadInput(engine, input, HasSubstr("the text is empty"));
  input.mutable_text_pair()->set_second("lion");
  ExpectBadInput(engine, input, HasSubstr("the pair's first text is empty"));
  input.mutable_text_pair()->clear_second();
  ExpectBadInput(engine, input, HasSubstr("the pair's first text is empty"));
  ExpectBadInput(engine, v1::Input(), HasSubstr("no value is set: want text, text_pair or tokens"));
}

TEST_F(RpcTextErrorsTest, OneBadTextAmong31GoodFailsItselfAlone) {
  ServeTexts();
  for (const char* bad : {"", "the queen"}) {
    std::vector<std::string> texts(32, "the lion");
    texts[17] = bad;
    v1::EmbedRequest request = TextsOf(texts);
    ExpectError(Embed(request).status, texts[17].empty() ? grpc::INVALID_ARGUMENT : grpc::INTERNAL,
                StartsWith("input 17: "));
    request.mutable_options()->set_partial_results(true);
    const Answer answer = Embed(request);
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    ASSERT_EQ(answer.embed.results_size(), 32);
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(answer.embed.results(i).has_error(), i == 17) << i;
      EXPECT_EQ(answer.embed.results(i).embedding().values_size(), i == 17 ? 0 : 4) << i;
    }
  }
}

TEST_F(RpcTextErrorsTest, TheLongestTextIsCleanAndOneTokenMoreNamesBothNumbers) {
  auto engine = PuppetEngine::OfText();
  engine->mutable_config().max_positions = 512;
  PuppetEngine* puppet = ServeTexts({}, std::move(engine));
  for (const int words : {509, 510}) {
    const Answer answer = Embed(TextsOf({Words(words)}));
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.embed.results(0).tokens(), static_cast<uint32_t>(words + 2));
  }
  const int64_t computed = puppet->inputs();
  for (const int words : {511, 512, 5000}) {
    ExpectError(Embed(TextsOf({Words(words)})).status, grpc::INVALID_ARGUMENT,
                AllOf(StartsWith("input 0: "), HasSubstr(absl::StrCat(words + 2, " tokens")), HasSubstr("512"),
                      HasSubstr("(the model's positions)")));
  }
  v1::EmbedRequest request = TextsOf({Words(511)});
  request.mutable_options()->set_truncation(v1::TRUNCATION_END);
  EXPECT_EQ(Embed(request).embed.results(0).tokens(), 512u);
  EXPECT_EQ(puppet->inputs(), computed + 1);
}

TEST_F(RpcTextErrorsTest, ALimitTooSmallForTheSpecialTokensSaysSo) {
  ServeTexts({.max_input_tokens = 1});
  ExpectError(Embed(TextsOf({"lion"})).status, grpc::INVALID_ARGUMENT,
              AllOf(HasSubstr("special tokens"), HasSubstr("--max-input-tokens")));
  EXPECT_TRUE(Embed(TokensOf({5})).status.ok());
}

TEST_F(RpcTextErrorsTest, TooManyBytesAreRefusedBeforeTheyAreTokenized) {
  PuppetEngine* engine = ServeTexts({.max_text_bytes = 1000});
  v1::Input input;
  input.set_text(std::string(1001, '.'));
  const auto message = HasSubstr("a text of 1001 bytes: the limit is 1000 (--max-text-bytes)");
  ExpectBadInput(engine, input, message);
  input.mutable_text_pair()->set_first("a");
  input.mutable_text_pair()->set_second(std::string(1001, '.'));
  ExpectBadInput(engine, input, message);
  input.mutable_text_pair()->set_first(std::string(1000, '.'));
  input.mutable_text_pair()->set_second(std::string(1000, '.'));
  v1::EmbedRequest request;
  *request.add_inputs() = input;
  EXPECT_TRUE(Embed(request).status.ok()) << "of one text";
}

TEST_F(RpcTextErrorsTest, AHundredMegabytesOfTextAreRefusedByTheirNumber) {
  PuppetEngine* engine = ServeTexts();
  v1::Input input;
  input.set_text(std::string(100 << 20, 'x'));
  ExpectBadInput(engine, input, HasSubstr("a text of 104857600 bytes: the limit is 16777216 (--max-text-bytes)"));
}

TEST_F(RpcTextErrorsTest, TokenIdsOutOfRangeNameTheirPlace) {
  PuppetEngine* engine = ServeTexts({.max_input_tokens = 4});
  const auto expect = [&](const std::vector<int64_t>& ids, const std::vector<int64_t>& types, const char* message) {
    v1::Input input = TokensOf(ids).inputs(0);
    input.mutable_tokens()->mutable_type_ids()->Add(types.begin(), types.end());
    ExpectBadInput(engine, input, HasSubstr(message));
  };
  expect({}, {}, "no tokens");
  expect({1, -1}, {}, "tokens.ids[1] is -1");
  expect({1, 2, int64_t{1} << 31}, {}, "tokens.ids[2] is 2147483648");
  expect({(int64_t{1} << 32) + 5}, {}, "tokens.ids[0] is 4294967301");
  expect({std::numeric_limits<int64_t>::min()}, {}, "tokens.ids[0] is -9223372036854775808");
  expect({200}, {}, "200");
  expect({1, 2}, {0}, "type ids");
  expect({1, 2}, {0, 2}, "2");
  expect({1, 2}, {0, int64_t{1} << 32}, "tokens.type_ids[1] is 4294967296");
}

TEST_F(RpcTextErrorsTest, TokenIdsAreNeverCut) {
  PuppetEngine* engine = ServeTexts({.max_input_tokens = 4, .truncation = TextTruncation::kEnd});
  ExpectBadInput(engine, TokensOf({1, 2, 3, 4, 5}).inputs(0),
                 HasSubstr("the input has 5 tokens, the limit is 4 (--max-input-tokens)"));
  EXPECT_TRUE(Embed(TokensOf({1, 2, 3, 4})).status.ok());
}

TEST_F(RpcTextErrorsTest, ImagesForAModelOfTexts) {
  PuppetEngine* engine = ServeTexts();
  v1::Input input;
  input.set_image("x");
  ExpectBadInput(engine, input, HasSubstr("an image was given, but the model 'puppet' takes text"));
  SetPixels(1, 16, &input);
  ExpectBadInput(engine, input, HasSubstr("takes text (text, text_pair or tokens)"));
}

TEST_F(RpcTextErrorsTest, AModelWithoutATokenizerTakesTokenIdsAlone) {
  with_tokenizer_ = false;
  PuppetEngine* engine = ServeTexts();
  v1::Input input;
  input.set_text("the lion");
  ExpectBadInput(engine, input, AllOf(HasSubstr("tokenizer.json"), HasSubstr("vocab.txt"), HasSubstr("token ids work")),
                 grpc::FAILED_PRECONDITION);
  EXPECT_TRUE(Embed(TokensOf({1, 2})).status.ok());
  ExpectError(Tokenize(TextsOf<v1::TokenizeRequest>({"a"})).status, grpc::FAILED_PRECONDITION, HasSubstr("vocab.txt"));
  ExpectError(FillMask(TokensOf<v1::FillMaskRequest>({4})).status, grpc::FAILED_PRECONDITION, HasSubstr("vocab.txt"));
}

TEST_F(RpcTextErrorsTest, HeadsAndPoolersThatAreNotThere) {
  auto engine = PuppetEngine::OfText();
  engine->mutable_config().pooler = false;
  engine->mutable_config().masked_lm = false;
  engine->mutable_config().classes = 0;
  ServeTexts({}, std::move(engine));
  v1::EmbedRequest request = TextsOf({"lion"});
  request.set_pooling(v1::POOLING_POOLER);
  ExpectError(Embed(request).status, grpc::INVALID_ARGUMENT, HasSubstr("no pooler"));
  ExpectError(Classify(TextsOf<v1::ClassifyRequest>({"lion"})).status, grpc::FAILED_PRECONDITION,
              HasSubstr("no classification head"));
  ExpectError(FillMask(TextsOf<v1::FillMaskRequest>({"[MASK]"})).status, grpc::FAILED_PRECONDITION,
              HasSubstr("no masked-token head"));
}

TEST_F(RpcTextErrorsTest, ATypeThatTheModelDoesNotHaveIsFoundAfterTokenizing) {
  auto engine = PuppetEngine::OfText();
  engine->mutable_config().type_vocabulary = 1;
  PuppetEngine* puppet = ServeTexts({}, std::move(engine));
  v1::Input input;
  input.mutable_text_pair()->set_first("the");
  input.mutable_text_pair()->set_second("lion");
  v1::EmbedRequest request;
  *request.add_inputs() = input;
  ExpectError(Embed(request).status, grpc::INVALID_ARGUMENT, HasSubstr("no type 1"));
  EXPECT_EQ(puppet->inputs(), 0);
}

TEST_F(RpcTextErrorsTest, TextThatIsNotUtf8IsAnErrorOfTheMessage) {
  ServeTexts();
  ExpectError(Embed(TextsOf({"\xc3\x28"})).status, grpc::INTERNAL, HasSubstr("UTF-8"));
}

TEST_F(RpcTextErrorsTest, RowsOfMoreTokensThanAReplyHoldsAreRefused) {
  PuppetEngine* engine = ServeTexts({.max_reply_bytes = 160});
  v1::EmbedRequest request = TextsOf({"lion river"});
  request.set_pooling(v1::POOLING_NONE);
  ExpectError(Embed(request).status, grpc::INVALID_ARGUMENT, HasSubstr("up to 12 tokens is more than the 160 bytes"));
  EXPECT_EQ(engine->inputs(), 0);
  request.mutable_inputs(0)->set_text("lion sea");
  EXPECT_TRUE(Embed(request).status.ok());
}

}  // namespace
}  // namespace lion
