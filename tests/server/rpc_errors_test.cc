// What bad calls answer: code, and a message that names the input and the limit.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <string>
#include <thread>

#include "tests/server/rpc_fixture.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RpcErrorsTest : public RpcTest {
 protected:
  void ExpectError(const grpc::Status& status, grpc::StatusCode code, const ::testing::Matcher<std::string>& message) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), message);
  }
  // Three inputs of which the last is `input`; nothing of the call may be computed.
  void ExpectBadInput(PuppetEngine* engine, const v1::Input& input, const ::testing::Matcher<std::string>& message) {
    v1::EmbedRequest request = EmbedOf({1, 2});
    *request.add_inputs() = input;
    ExpectError(Embed(request).status, grpc::INVALID_ARGUMENT, AllOf(StartsWith("input 2: "), message));
    EXPECT_EQ(engine->inputs(), 0);
  }
};

TEST_F(RpcErrorsTest, AnUnknownModelIsNotFoundAndTheNamesAreListed) {
  AddModel("first");
  AddModel("second");
  Serve();
  v1::EmbedRequest request = EmbedOf({1});
  request.set_model("nope");
  ExpectError(Embed(request).status, grpc::NOT_FOUND, AllOf(HasSubstr("'nope'"), HasSubstr("'first', 'second'")));
  request.set_model("second");
  EXPECT_TRUE(Embed(request).status.ok());
}

TEST_F(RpcErrorsTest, ALongUnknownNameIsCutBetweenCharacters) {
  ServeOne();
  v1::EmbedRequest request = EmbedOf({1});
  std::string name = "x";
  for (int i = 0; i < 100; ++i) name += "\u00e9";
  request.set_model(name);
  // "x" and 49 characters of 2 bytes: the 50th would end at byte 101.
  ExpectError(Embed(request).status, grpc::NOT_FOUND, HasSubstr("'" + name.substr(0, 99) + "...'"));
}

TEST_F(RpcErrorsTest, AnEmptyNameNeedsASingleModel) {
  AddModel("first");
  AddModel("second");
  Serve();
  ExpectError(Embed(EmbedOf({1})).status, grpc::INVALID_ARGUMENT, HasSubstr("'first', 'second'"));
}

TEST_F(RpcErrorsTest, ClassifyWithoutAHeadIsAFailedPrecondition) {
  auto engine = std::make_unique<PuppetEngine>();
  engine->mutable_config().classes = 0;
  ServeOne({}, std::move(engine));
  ExpectError(Classify(ClassifyOf({1})).status, grpc::FAILED_PRECONDITION, HasSubstr("no classification head"));
}

TEST_F(RpcErrorsTest, TextForAVisionModelNamesTheInput) {
  PuppetEngine* engine = ServeOne();
  v1::Input input;
  input.set_text("a cat");
  ExpectBadInput(engine, input, HasSubstr("takes images"));
  input.mutable_text_pair()->set_first("a");
  ExpectBadInput(engine, input, HasSubstr("takes images"));
  input.mutable_tokens()->add_ids(1);
  ExpectBadInput(engine, input, HasSubstr("takes images"));
  ExpectBadInput(engine, v1::Input(), HasSubstr("no value is set"));
}

TEST_F(RpcErrorsTest, PixelSizesThatDoNotFitAreRefused) {
  PuppetEngine* engine = ServeOne();
  v1::Input input;
  SetPixels(1, 16, &input);
  input.mutable_pixels()->set_height(15);
  ExpectBadInput(engine, input, AllOf(HasSubstr("3072 bytes"), HasSubstr("[3, height 15, width 16]")));
  input.mutable_pixels()->set_height(0);
  ExpectBadInput(engine, input, HasSubstr("a side of 0"));
  input.mutable_pixels()->set_height(16);
  input.mutable_pixels()->set_width(0);
  ExpectBadInput(engine, input, HasSubstr("a side of 0"));
  // 3 * 4 * (2^32 - 1)^2 wraps around in 64 bits; 2^31 * 2^31 * 4 is 2^64.
  for (const uint32_t side : {0xffffffffu, 0x80000000u}) {
    input.mutable_pixels()->set_height(side);
    input.mutable_pixels()->set_width(side);
    ExpectBadInput(engine, input, HasSubstr("pixels.data has 3072 bytes"));
    input.mutable_pixels()->clear_data();
    ExpectBadInput(engine, input, HasSubstr("pixels.data has 0 bytes"));
    SetPixels(1, 16, &input);
  }
  input.mutable_pixels()->set_type(v1::PixelTensor::TYPE_UINT8);
  ExpectBadInput(engine, input, HasSubstr("uint8"));
  input.mutable_pixels()->set_type(static_cast<v1::PixelTensor::Type>(7));
  ExpectBadInput(engine, input, HasSubstr("pixels.type: 7"));
  SetPixels(1, 7, &input);
  input.mutable_pixels()->set_type(v1::PixelTensor::TYPE_FLOAT32);
  ExpectBadInput(engine, input, HasSubstr("smaller than a patch"));
}

TEST_F(RpcErrorsTest, BadImagesAreRefusedBeforeAnythingRuns) {
  PuppetEngine* engine = ServeOne({.max_image_pixels = 1'000'000});
  v1::Input input;
  input.set_image("");
  ExpectBadInput(engine, input, HasSubstr("empty"));
  input.set_image("GIF89a and so on");
  ExpectBadInput(engine, input, HasSubstr("not a JPEG, PNG or WebP"));
  // The header of a PNG of 100,000 x 100,000 pixels.
  std::string bomb("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\x01\x86\xa0\0\x01\x86\xa0\x08\x02\0\0\0", 29);
  bomb += std::string("\x91\x1f\x5b\x6a", 4) + std::string("\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
  input.set_image(bomb);
  ExpectBadInput(engine, input, AllOf(HasSubstr("100000"), HasSubstr("--max-image-pixels")));
}

TEST_F(RpcErrorsTest, AnImageThatNeedsMoreMemoryThanAllDecodesIsRefused) {
  v1::Input input;
  input.set_image(testing::ReadFile(testing::SourcePath("tests/golden/images/landscape.jpg")));
  ImagePreprocessOptions options;
  options.config.size = 16;
  options.config.crop_ratio = 1;
  const absl::StatusOr<PreprocessPlan> plan = PlanPreprocess(input.image(), options, PuppetEngine::kPatch);
  ASSERT_TRUE(plan.ok()) << plan.status();
  FairBudget exact(plan->memory_bytes);
  FairBudget less(plan->memory_bytes - 1);
  decode_limit_ = &exact;
  AddModel("enough");
  decode_limit_ = &less;
  PuppetEngine* small = AddModel("small");
  Serve();
  v1::EmbedRequest request;
  *request.add_inputs() = input;
  request.set_model("enough");
  const grpc::Status accepted = Embed(request).status;
  EXPECT_TRUE(accepted.ok()) << accepted.error_message();
  request.set_model("small");
  ExpectError(Embed(request).status, grpc::INVALID_ARGUMENT,
              AllOf(StartsWith("input 0: decoding the image takes up to "),
                    HasSubstr(absl::StrCat(plan->memory_bytes, " bytes of memory, the limit is ",
                                           plan->memory_bytes - 1, " (--max-decode-bytes): send fewer pixels"))));
  EXPECT_EQ(small->inputs(), 0);
}

TEST_F(RpcErrorsTest, ATruncatedImageIsFoundWhileDecoding) {
  ServeOne();
  std::string file = testing::ReadFile(testing::SourcePath("tests/golden/images/landscape.jpg"));
  file.resize(file.size() / 2);
  v1::EmbedRequest request = EmbedOf({1});
  request.add_inputs()->set_image(file);
  ExpectError(Embed(request).status, grpc::INVALID_ARGUMENT, AllOf(StartsWith("input 1: "), HasSubstr("truncated")));
  request.mutable_options()->mutable_image()->set_allow_truncated(true);
  EXPECT_TRUE(Embed(request).status.ok());
}

TEST_F(RpcErrorsTest, PartialResultsFailOnlyTheBadInputs) {
  ServeOne();
  v1::EmbedRequest request = EmbedOf({1});
  request.add_inputs()->set_text("a cat");
  SetPixels(PuppetEngine::kNotFinite, 16, request.add_inputs());
  std::string cut = testing::ReadFile(testing::SourcePath("tests/golden/images/landscape.jpg"));
  cut.resize(cut.size() / 2);
  request.add_inputs()->set_image(cut);
  SetPixels(5, 16, request.add_inputs());
  request.mutable_options()->set_partial_results(true);
  const Answer answer = Embed(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.embed.results_size(), 5);
  EXPECT_EQ(answer.embed.results(0).embedding().values(0), 1);
  EXPECT_EQ(answer.embed.results(1).error().code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(answer.embed.results(1).error().message(), HasSubstr("takes images"));
  EXPECT_EQ(answer.embed.results(2).error().code(), grpc::INTERNAL);
  EXPECT_EQ(answer.embed.results(3).error().code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(answer.embed.results(3).error().message(), HasSubstr("truncated"));
  EXPECT_EQ(answer.embed.results(4).embedding().values(0), 5);
}

TEST_F(RpcErrorsTest, PartialResultsOfBadInputsOnlyComputeNothing) {
  PuppetEngine* engine = ServeOne();
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("a cat");
  request.mutable_options()->set_partial_results(true);
  const Answer answer = Classify(request);
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.classify.results(0).error().code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(engine->batches(), 0);
}

TEST_F(RpcErrorsTest, ANonFiniteResultFailsItsCallAndNoOther) {
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(EmbedOf({9}));
  engine->AwaitEntered(1);
  calls.Start(EmbedOf({1, PuppetEngine::kNotFinite}));
  calls.Start(EmbedOf({2}));
  while (registry_.models()[0]->waiting_tokens() < 15) std::this_thread::yield();
  engine->Release();
  calls.AwaitAll();
  ExpectError(calls.status(1), grpc::INTERNAL, StartsWith("input 1: "));
  EXPECT_TRUE(calls.status(2).ok());
  EXPECT_EQ(engine->batches(), 2);
}

TEST_F(RpcErrorsTest, ArgumentsOutOfRange) {
  PuppetEngine* engine = ServeOne({.max_input_tokens = 100, .max_inputs_per_call = 4, .max_reply_bytes = 200});
  const auto expect = [&](const std::function<void(v1::EmbedRequest&)>& change, const char* message) {
    v1::EmbedRequest request = EmbedOf({1});
    change(request);
    ExpectError(Embed(request).status, grpc::INVALID_ARGUMENT, HasSubstr(message));
  };
  expect([](auto& r) { r.clear_inputs(); }, "inputs is empty");
  expect([](auto& r) { r = EmbedOf({1, 2, 3, 4, 5}); }, "--max-inputs-per-call");
  expect([](auto& r) { r = EmbedOf({1}, 80); }, "101 tokens, the limit is 100 (--max-input-tokens)");
  expect([](auto& r) { r.set_dimensions(5); }, "dimensions: got 5, the model's embeddings have 4");
  expect([](auto& r) { r.mutable_options()->set_priority(10); }, "options.priority: got 10");
  expect([](auto& r) { r.mutable_options()->set_truncation(static_cast<v1::Truncation>(9)); }, "options.truncation: 9");
  expect([](auto& r) { r.set_pooling(v1::POOLING_POOLER); }, "no pooler");
  expect([](auto& r) { r.set_pooling(static_cast<v1::Pooling>(77)); }, "pooling: 77");
  expect([](auto& r) { r.mutable_options()->mutable_image()->set_crop_ratio(1.5f); }, "crop_ratio: got 1.5");
  expect([](auto& r) { r.mutable_options()->mutable_image()->set_crop_ratio(NAN); }, "crop_ratio");
  expect([](auto& r) { r.mutable_options()->mutable_image()->set_resize(static_cast<v1::ImageOptions::Resize>(9)); },
         "resize: 9");
  expect(
      [](auto& r) {
        r = EmbedOf({1, 1, 1});
        r.set_pooling(v1::POOLING_NONE);
      },
      "200 bytes a reply may have");
  EXPECT_EQ(engine->batches(), 0);
}

TEST_F(RpcErrorsTest, AHundredThousandInputsAreRefusedByTheirNumber) {
  PuppetEngine* engine = ServeOne();
  v1::EmbedRequest request;
  for (int i = 0; i < 100'000; ++i) request.add_inputs()->set_text("x");
  ExpectError(Embed(request).status, grpc::INVALID_ARGUMENT, HasSubstr("100000 inputs, the limit is 1024"));
  EXPECT_EQ(engine->batches(), 0);
}

TEST_F(RpcErrorsTest, AVisionModelHasNoMasksAndNoTokenizer) {
  ServeOne();
  ExpectError(FillMask(TextsOf<v1::FillMaskRequest>({"a [MASK]"})).status, grpc::FAILED_PRECONDITION,
              HasSubstr("no masked-token head"));
  ExpectError(Tokenize(TextsOf<v1::TokenizeRequest>({"a"})).status, grpc::FAILED_PRECONDITION,
              HasSubstr("no tokenizer: it takes images"));
}

}  // namespace
}  // namespace lion
