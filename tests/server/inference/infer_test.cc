// What good ModelInfer requests answer.
#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/inference/infer_fixture.h"

namespace lion {
namespace {

using testing::AddInput;
using testing::AddRaw;
using testing::BytesOf;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using testing::Raw;
using testing::RawBytes;
using testing::ShapeOf;
using testing::TextsRequest;
using testing::ValuesOf;

// The puppet's answers for "the lion" and "lion": [CLS] 2, [SEP] 3, the 47, lion 76.
constexpr float kTheLion = 2 + 2 * 47 + 3 * 76 + 4 * 3;
constexpr float kLion = 2 + 2 * 76 + 3 * 3;

std::vector<std::string> NamesOf(const inference::ModelInferResponse& response) {
  std::vector<std::string> names;
  for (const auto& output : response.outputs()) names.push_back(output.name());
  return names;
}

TEST_F(InferTest, TextsInBothForms) {
  ServeTexts();
  inference::ModelInferRequest raw = TextsRequest({"the lion", "lion"});
  raw.set_id("42");
  raw.set_model_name("puppet");
  raw.set_model_version("1");
  inference::ModelInferRequest contents = raw;
  contents.clear_raw_input_contents();
  contents.mutable_inputs(0)->mutable_contents()->add_bytes_contents("the lion");
  contents.mutable_inputs(0)->mutable_contents()->add_bytes_contents("lion");
  inference::ModelInferRequest flat = raw;
  flat.mutable_inputs(0)->mutable_shape()->RemoveLast();
  for (const inference::ModelInferRequest& request : {raw, contents, flat}) {
    const inference::ModelInferResponse response = MustInfer(request);
    EXPECT_EQ(response.model_name(), "puppet");
    EXPECT_EQ(response.model_version(), "1");
    EXPECT_EQ(response.id(), "42");
    EXPECT_THAT(NamesOf(response), ElementsAre("embeddings", "logits", "probabilities", "token_count"))
        << "all but those of masks, which not every text has";
    EXPECT_EQ(response.outputs(0).datatype(), "FP32");
    EXPECT_FALSE(response.outputs(0).has_contents());
    EXPECT_THAT(ShapeOf("embeddings", response), ElementsAre(2, 4));
    EXPECT_THAT(ValuesOf<float>("embeddings", response),
                ElementsAre(kTheLion, -kTheLion, kTheLion, 0, kLion, -kLion, kLion, 0));
    EXPECT_THAT(ShapeOf("logits", response), ElementsAre(2, 3));
    EXPECT_THAT(ShapeOf("token_count", response), ElementsAre(2, 1));
    EXPECT_THAT(ValuesOf<int64_t>("token_count", response), ElementsAre(4, 3));
  }
}

TEST_F(InferTest, ImageFiles) {
  ServeOne();
  const std::string photo = testing::ReadFile(testing::SourcePath("tests/golden/images/landscape.jpg"));
  v1::EmbedRequest same;
  same.add_inputs()->set_image(photo);
  const float expected = Embed(same).embed.results(0).embedding().values(0);
  inference::ModelInferRequest request;
  AddRaw("image", "BYTES", {2, 1}, RawBytes({photo, photo}), &request);
  EXPECT_THAT(ValuesOf<float>("embeddings", MustInfer(request)),
              ElementsAre(expected, -expected, expected, 0, expected, -expected, expected, 0));
}

TEST_F(InferTest, PixelsInEveryForm) {
  ServeOne();
  EXPECT_THAT(ValuesOf<float>("embeddings", MustInfer(PixelsRequest({1.5f, -2}))),
              ElementsAre(1.5f, -1.5f, 1.5f, 0, -2, 2, -2, 0));
  inference::ModelInferRequest floats;
  auto* const contents = AddInput("pixels", "FP32", {1, 3, 16, 8}, &floats)->mutable_contents();
  for (int i = 0; i < 3 * 16 * 8; ++i) contents->add_fp32_contents(2.5f);
  EXPECT_THAT(ValuesOf<float>("embeddings", MustInfer(floats)), ElementsAre(2.5f, -2.5f, 2.5f, 0));

  inference::ModelInferRequest bytes;
  std::vector<uint8_t> values(2 * 3 * 8 * 8, 7);
  std::fill(values.begin() + 3 * 8 * 8, values.end(), 200);
  AddRaw("pixels", "UINT8", {2, 3, 8, 8}, Raw(values), &bytes);
  inference::ModelInferRequest wide;
  auto* const numbers = AddInput("pixels", "UINT8", {2, 3, 8, 8}, &wide)->mutable_contents();
  for (const uint8_t value : values) numbers->add_uint_contents(value);
  for (const inference::ModelInferRequest& request : {bytes, wide}) {
    EXPECT_THAT(ValuesOf<float>("embeddings", MustInfer(request)), ElementsAre(7, -7, 7, 0, 200, -200, 200, 0));
  }
}

TEST_F(InferTest, PaddingIsTakenAwayOnEitherSide) {
  PuppetEngine* const engine = ServeTexts();
  inference::ModelInferRequest request = IdsRequest({3, 4}, {7, 8, 0, 0, 0, 0, 7, 8, 7, 8, 9, 10});
  AddRaw("attention_mask", "INT64", {3, 4}, Raw<int64_t>({1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}), &request);
  AddRaw("token_type_ids", "INT64", {3, 4}, Raw<int64_t>({0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}), &request);
  const inference::ModelInferResponse response = MustInfer(request);
  const std::vector<float> values = ValuesOf<float>("embeddings", response);
  EXPECT_EQ(values[0], 7 + 2 * 8 + 1000);
  EXPECT_EQ(values[4], values[0]) << "padded on the left, and the same";
  EXPECT_EQ(values[8], 7 + 2 * 8 + 3 * 9 + 4 * 10);
  EXPECT_THAT(ValuesOf<int64_t>("token_count", response), ElementsAre(2, 2, 4));
  EXPECT_EQ(engine->inputs(), 3);
  inference::ModelInferRequest contents;
  for (const int64_t id : {7, 8}) {
    if (contents.inputs_size() == 0) AddInput("input_ids", "INT64", {1, 2}, &contents);
    contents.mutable_inputs(0)->mutable_contents()->add_int64_contents(id);
  }
  EXPECT_EQ(ValuesOf<float>("embeddings", MustInfer(contents))[0], 23);
}

TEST_F(InferTest, OutputsComeInTheOrderInWhichTheyAreAskedFor) {
  ServeOne();
  inference::ModelInferRequest request = PixelsRequest({1});
  Want("token_count", &request);
  Want("probabilities", &request);
  const inference::ModelInferResponse response = MustInfer(request);
  EXPECT_THAT(NamesOf(response), ElementsAre("token_count", "probabilities"));
  EXPECT_EQ(response.raw_output_contents_size(), 2);
  const double sum = std::exp(1) + std::exp(2) + std::exp(-1);
  const std::vector<float> probabilities = ValuesOf<float>("probabilities", response);
  EXPECT_THAT(probabilities, ElementsAre(FloatEq(static_cast<float>(std::exp(1) / sum)),
                                         FloatEq(static_cast<float>(std::exp(2) / sum)),
                                         FloatEq(static_cast<float>(std::exp(-1) / sum))));
}

TEST_F(InferTest, ClassificationNamesTheHighest) {
  ServeOne();
  inference::ModelInferRequest request = PixelsRequest({1.5f, -1});
  Want("logits", &request);
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(2);
  inference::ModelInferResponse response = MustInfer(request);
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_THAT(ShapeOf("logits", response), ElementsAre(2, 2));
  EXPECT_THAT(BytesOf("logits", response), ElementsAre("3:1:one", "1.5:0:zero", "1:2:two", "-1:0:zero"));
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(1000);
  response = MustInfer(request);
  EXPECT_THAT(ShapeOf("logits", response), ElementsAre(2, 3)) << "no more than there are classes";
}

TEST_F(InferTest, PredictsWhatAMaskHides) {
  ServeTexts();
  inference::ModelInferRequest request = TextsRequest({"the [MASK]", "[MASK] lion"});
  for (const char* const name : {"token_ids", "tokens", "scores"}) Want(name, &request);
  inference::ModelInferResponse response = MustInfer(request);
  EXPECT_THAT(ShapeOf("token_ids", response), ElementsAre(2, 5));
  EXPECT_THAT(ValuesOf<int64_t>("token_ids", response), ElementsAre(2, 3, 4, 5, 6, 1, 2, 3, 4, 5));
  EXPECT_EQ(BytesOf("tokens", response)[3], "a");
  EXPECT_THAT(ValuesOf<float>("scores", response)[0], 0.5f);
  (*request.mutable_parameters())["top_k"].set_int64_param(1);
  response = MustInfer(request);
  EXPECT_THAT(ShapeOf("scores", response), ElementsAre(2, 1));
}

TEST_F(InferTest, ParametersOfAnEmbedding) {
  ServeOne();
  inference::ModelInferRequest request = PixelsRequest({3});
  Want("embeddings", &request);
  auto& parameters = *request.mutable_parameters();
  parameters["dimensions"].set_int64_param(2);
  parameters["normalize"].set_bool_param(true);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  parameters["anything"].set_double_param(1);
  inference::ModelInferResponse response = MustInfer(request);
  EXPECT_THAT(ShapeOf("embeddings", response), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf<float>("embeddings", response),
              ElementsAre(FloatEq(std::sqrt(0.5f)), FloatEq(-std::sqrt(0.5f))));
  parameters.clear();
  parameters["pooling"].set_string_param("none");
  response = MustInfer(request);
  EXPECT_THAT(ShapeOf("embeddings", response), ElementsAre(1, 5, 4)) << "2 x 2 patches and the class token";
  EXPECT_EQ(ValuesOf<float>("embeddings", response)[4 + 2], 4);
}

TEST_F(InferTest, TruncationIsForTheCallerToSay) {
  ServeTexts({.max_input_tokens = 4});
  inference::ModelInferRequest request = TextsRequest({"a b c the lion"});
  ExpectInvalid(request, ::testing::HasSubstr("7 tokens"));
  (*request.mutable_parameters())["truncate"].set_string_param("START");
  EXPECT_EQ(ValuesOf<float>("embeddings", MustInfer(request))[0], kTheLion);
}

TEST_F(InferTest, ARequestsTimeoutAndItsCallersDeadlineBothCount) {
  PuppetEngine* const engine = ServeOne();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(EmbedOf({1}));
  engine->AwaitEntered(1);
  inference::ModelInferRequest request = PixelsRequest({1});
  (*request.mutable_parameters())["timeout"].set_int64_param(1000);
  std::thread release([this, engine] {
    while (models()[0]->waiting_tokens() == 0) std::this_thread::yield();
    const int64_t over_ns = clock_.NowNs() + 1'000'000;
    while (clock_.NowNs() < over_ns) std::this_thread::yield();
    engine->Release();
  });
  ExpectError(request, grpc::DEADLINE_EXCEEDED, ::testing::_);
  release.join();
  EXPECT_EQ(engine->inputs(), 1) << "nothing was computed for it";
}

}  // namespace
}  // namespace lion
