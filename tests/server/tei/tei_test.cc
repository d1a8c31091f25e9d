// tei.v1, over the wire.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tei/v1/tei.grpc.pb.h"
#include "tests/server/rpc_fixture.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

// The puppet's answers: [CLS] 2, [SEP] 3, the 47, lion 76.
constexpr float kTheLion = 2 + 2 * 47 + 3 * 76 + 4 * 3;
constexpr float kLion = 2 + 2 * 76 + 3 * 3;

class TeiTest : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    embed_ = tei::v1::Embed::NewStub(channel_);
    predict_ = tei::v1::Predict::NewStub(channel_);
    rerank_ = tei::v1::Rerank::NewStub(channel_);
    tokenize_ = tei::v1::Tokenize::NewStub(channel_);
    info_ = tei::v1::Info::NewStub(channel_);
  }

  // Calls `method` of `stub`; the status and headers are kept.
  template <class Stub, class Base, class Request, class Response>
  Response Call(const std::unique_ptr<Stub>& stub,
                grpc::Status (Base::*method)(grpc::ClientContext*, const Request&, Response*), const Request& request,
                const std::string& model = "") {
    grpc::ClientContext context;
    if (!model.empty()) context.AddMetadata("x-model-name", model);
    Response response;
    status_ = (stub.get()->*method)(&context, request, &response);
    headers_.clear();
    for (const auto& [key, value] : context.GetServerInitialMetadata()) {
      headers_[std::string(key.data(), key.size())] = std::string(value.data(), value.size());
    }
    return response;
  }
  tei::v1::EmbedResponse EmbedText(const std::string& text, bool normalize = false, const std::string& model = "") {
    tei::v1::EmbedRequest request;
    request.set_inputs(text);
    request.set_normalize(normalize);
    return Call(embed_, &tei::v1::Embed::Stub::Embed, request, model);
  }
  void ExpectError(grpc::StatusCode code, const std::string& words) const {
    EXPECT_EQ(status_.error_code(), code) << status_.error_message();
    EXPECT_THAT(status_.error_message(), HasSubstr(words));
  }

  std::unique_ptr<tei::v1::Embed::Stub> embed_;
  std::unique_ptr<tei::v1::Predict::Stub> predict_;
  std::unique_ptr<tei::v1::Rerank::Stub> rerank_;
  std::unique_ptr<tei::v1::Tokenize::Stub> tokenize_;
  std::unique_ptr<tei::v1::Info::Stub> info_;
  grpc::Status status_;
  std::map<std::string, std::string> headers_;
};

TEST_F(TeiTest, EmbedsAText) {
  ServeTexts();
  const tei::v1::EmbedResponse raw = EmbedText("the lion");
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_THAT(raw.embeddings(), ElementsAre(kTheLion, -kTheLion, kTheLion, 0));
  EXPECT_EQ(raw.metadata().compute_chars(), 8u);
  EXPECT_EQ(raw.metadata().compute_tokens(), 4u);
  EXPECT_GT(raw.metadata().inference_time_ns(), 0u);
  EXPECT_LE(raw.metadata().tokenization_time_ns() + raw.metadata().queue_time_ns() + raw.metadata().inference_time_ns(),
            raw.metadata().total_time_ns());
  EXPECT_EQ(headers_["x-compute-type"], "puppet");
  EXPECT_EQ(headers_["x-compute-characters"], "8");
  EXPECT_EQ(headers_["x-compute-tokens"], "4");
  for (const char* const key :
       {"x-compute-time", "x-total-time", "x-tokenization-time", "x-queue-time", "x-inference-time"}) {
    EXPECT_EQ(headers_.count(key), 1u) << key;
  }
  EXPECT_NEAR(std::stod(headers_["x-total-time"]), 1e-6 * static_cast<double>(raw.metadata().total_time_ns()), 1e-3);

  tei::v1::EmbedRequest request;
  request.set_inputs("n\u00e9e");
  request.set_dimensions(2);
  const tei::v1::EmbedResponse unit = Call(embed_, &tei::v1::Embed::Stub::Embed, request);
  EXPECT_THAT(unit.embeddings(), ElementsAre(FloatEq(std::sqrt(0.5f)), FloatEq(-std::sqrt(0.5f))))
      << "of its own accord";
  EXPECT_EQ(unit.metadata().compute_chars(), 3u);
}

TEST_F(TeiTest, EmbedsEveryToken) {
  ServeTexts();
  tei::v1::EmbedAllRequest request;
  request.set_inputs("the lion");
  const tei::v1::EmbedAllResponse response = Call(embed_, &tei::v1::Embed::Stub::EmbedAll, request);
  ASSERT_EQ(response.token_embeddings_size(), 4);
  EXPECT_THAT(response.token_embeddings(2).embeddings(), ElementsAre(kTheLion, -kTheLion, kTheLion + 2, 0));
}

TEST_F(TeiTest, BadTexts) {
  PuppetEngine* const engine = ServeTexts({.max_input_tokens = 4});
  EmbedText("");
  ExpectError(grpc::INVALID_ARGUMENT, "`inputs` cannot be empty");
  EmbedText("a b the lion");
  ExpectError(grpc::INVALID_ARGUMENT, "6 tokens");
  tei::v1::EmbedRequest request;
  request.set_inputs("a b the lion");
  request.set_normalize(false);
  request.set_truncate(true);
  request.set_truncation_direction(tei::v1::TRUNCATION_DIRECTION_LEFT);
  EXPECT_EQ(Call(embed_, &tei::v1::Embed::Stub::Embed, request).embeddings(0), kTheLion);
  request.set_truncation_direction(static_cast<tei::v1::TruncationDirection>(7));
  Call(embed_, &tei::v1::Embed::Stub::Embed, request);
  ExpectError(grpc::INVALID_ARGUMENT, "`truncation_direction` is 7, want 0 (right) or 1 (left)");
  request.clear_truncation_direction();
  request.set_dimensions(5);
  Call(embed_, &tei::v1::Embed::Stub::Embed, request);
  ExpectError(grpc::INVALID_ARGUMENT, "`dimensions` is 5, want 1 to 4");
  request.clear_dimensions();
  request.set_prompt_name("query");
  Call(embed_, &tei::v1::Embed::Stub::Embed, request);
  ExpectError(grpc::INVALID_ARGUMENT, "no prompts");
  EXPECT_EQ(engine->inputs(), 1);
}

TEST_F(TeiTest, TheModelIsNamedInTheMetadata) {
  AddModel("images");
  AddModel("texts", {}, PuppetEngine::OfText());
  Serve();
  EXPECT_EQ(EmbedText("lion", false, "texts").embeddings(0), kLion);
  EmbedText("lion");
  ExpectError(grpc::INVALID_ARGUMENT, "the server has several: 'images', 'texts'");
  EmbedText("lion", false, "nope");
  ExpectError(grpc::NOT_FOUND, "'nope'");
  EmbedText("lion", false, "images");
  ExpectError(grpc::FAILED_PRECONDITION, "takes images, and not texts");
  const tei::v1::InfoResponse info = Call(info_, &tei::v1::Info::Stub::Info, tei::v1::InfoRequest(), "texts");
  EXPECT_EQ(info.model_id(), "texts");
  EXPECT_EQ(info.model_dtype(), "float32");
  EXPECT_EQ(info.model_type(), tei::v1::MODEL_TYPE_CLASSIFIER);
  EXPECT_EQ(info.max_client_batch_size(), 1024u);
  EXPECT_GT(info.max_input_length(), 0u);
}

TEST_F(TeiTest, PredictsClassesHighestFirst) {
  ServeTexts();
  tei::v1::PredictRequest request;
  request.set_inputs("lion");
  request.set_raw_scores(true);
  const tei::v1::PredictResponse response = Call(predict_, &tei::v1::Predict::Stub::Predict, request);
  ASSERT_EQ(response.predictions_size(), 3) << status_.error_message();
  EXPECT_EQ(response.predictions(0).label(), "one");
  EXPECT_EQ(response.predictions(0).score(), 2 * kLion);
  EXPECT_EQ(response.predictions(2).label(), "two");
  request.set_raw_scores(false);
  EXPECT_THAT(Call(predict_, &tei::v1::Predict::Stub::Predict, request).predictions(0).score(), FloatEq(1));

  tei::v1::PredictPairRequest pair;
  pair.set_raw_scores(true);
  pair.add_inputs("the");
  Call(predict_, &tei::v1::Predict::Stub::PredictPair, pair);
  ExpectError(grpc::INVALID_ARGUMENT, "`inputs` has 1 texts, want 2");
  pair.add_inputs("lion");
  EXPECT_EQ(Call(predict_, &tei::v1::Predict::Stub::PredictPair, pair).predictions(1).score(),
            2 + 2 * 47 + 3 * 3 + 4 * 76 + 5 * 3 + 2000);
}

TEST_F(TeiTest, WhatAModelIsNotFor) {
  auto engine = PuppetEngine::OfText();
  engine->mutable_config().classes = 0;
  ServeTexts({}, std::move(engine));
  tei::v1::PredictRequest predict;
  predict.set_inputs("a");
  Call(predict_, &tei::v1::Predict::Stub::Predict, predict);
  ExpectError(grpc::FAILED_PRECONDITION, "has no classification head");
  tei::v1::RerankRequest rerank;
  rerank.set_query("a");
  Call(rerank_, &tei::v1::Rerank::Stub::Rerank, rerank);
  ExpectError(grpc::FAILED_PRECONDITION, "does not rank");
  Call(embed_, &tei::v1::Embed::Stub::EmbedSparse, tei::v1::EmbedSparseRequest());
  ExpectError(grpc::FAILED_PRECONDITION, "sparse embeddings");
  grpc::ClientContext context;
  EXPECT_EQ(embed_->EmbedSparseStream(&context)->Finish().error_code(), grpc::FAILED_PRECONDITION);
}

TEST_F(TeiTest, RanksTexts) {
  auto engine = PuppetEngine::OfText();
  engine->mutable_config().classes = 1;
  ServeTexts({.max_inputs_per_call = 3}, std::move(engine));
  tei::v1::RerankRequest request;
  request.set_query("the");
  for (const char* const text : {"a", "lion", "the"}) request.add_texts(text);
  request.set_raw_scores(true);
  request.set_return_text(true);
  const tei::v1::RerankResponse response = Call(rerank_, &tei::v1::Rerank::Stub::Rerank, request);
  ASSERT_EQ(response.ranks_size(), 3) << status_.error_message();
  EXPECT_EQ(response.ranks(0).index(), 1u);
  EXPECT_EQ(response.ranks(0).text(), "lion");
  EXPECT_EQ(response.ranks(1).index(), 0u) << "a has the id 50";
  EXPECT_EQ(response.ranks(2).index(), 2u);
  request.set_raw_scores(false);
  EXPECT_THAT(Call(rerank_, &tei::v1::Rerank::Stub::Rerank, request).ranks(0).score(), FloatEq(1));
  request.add_texts("more");
  Call(rerank_, &tei::v1::Rerank::Stub::Rerank, request);
  ExpectError(grpc::INVALID_ARGUMENT, "--max-inputs-per-call");
}

TEST_F(TeiTest, TokensAndTheirText) {
  ServeTexts();
  tei::v1::EncodeRequest request;
  request.set_inputs("The lions");
  request.set_add_special_tokens(true);
  const tei::v1::EncodeResponse response = Call(tokenize_, &tei::v1::Tokenize::Stub::Tokenize, request);
  ASSERT_EQ(response.tokens_size(), 5) << status_.error_message();
  EXPECT_EQ(response.tokens(0).text(), "[CLS]");
  EXPECT_TRUE(response.tokens(0).special());
  EXPECT_FALSE(response.tokens(0).has_start());
  EXPECT_EQ(response.tokens(1).text(), "The") << "as it stands in the text";
  EXPECT_EQ(response.tokens(1).id(), 47u);
  EXPECT_EQ(response.tokens(3).text(), "s");
  EXPECT_EQ(response.tokens(3).start(), 8u);
  EXPECT_EQ(response.tokens(3).stop(), 9u);
  tei::v1::DecodeRequest decode;
  for (const tei::v1::SimpleToken& token : response.tokens()) decode.add_ids(token.id());
  EXPECT_EQ(Call(tokenize_, &tei::v1::Tokenize::Stub::Decode, decode).text(), "[CLS] the lions [SEP]");
  decode.set_skip_special_tokens(true);
  EXPECT_EQ(Call(tokenize_, &tei::v1::Tokenize::Stub::Decode, decode).text(), "the lions");
  decode.add_ids(200);
  Call(tokenize_, &tei::v1::Tokenize::Stub::Decode, decode);
  ExpectError(grpc::INVALID_ARGUMENT, "there is no token 200");
  Call(tokenize_, &tei::v1::Tokenize::Stub::Decode, tei::v1::DecodeRequest());
  ExpectError(grpc::INVALID_ARGUMENT, "`ids` has 0 tokens");
}

TEST_F(TeiTest, AStreamIsInOrderAndEndsWithItsFirstError) {
  ServeTexts();
  grpc::ClientContext context;
  const auto stream = embed_->EmbedStream(&context);
  const std::vector<std::string> texts = {"the lion", "lion", "", "the lion"};
  for (const std::string& text : texts) {
    tei::v1::EmbedRequest request;
    request.set_inputs(text);
    request.set_normalize(false);
    // After its end nothing can be written.
    if (!stream->Write(request)) break;
  }
  tei::v1::EmbedResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.embeddings(0), kTheLion);
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.embeddings(0), kLion);
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("`inputs` cannot be empty"));
}

TEST_F(TeiTest, CallsOfManyCallersShareBatches) {
  PuppetEngine* const engine = ServeTexts();
  engine->Hold();
  const auto call = [this] {
    grpc::ClientContext context;
    tei::v1::EmbedRequest request;
    request.set_inputs("lion");
    tei::v1::EmbedResponse response;
    EXPECT_TRUE(embed_->Embed(&context, request, &response).ok());
  };
  std::vector<std::thread> callers;
  callers.emplace_back(call);
  engine->AwaitEntered(1);
  for (int i = 0; i < 8; ++i) callers.emplace_back(call);
  while (models()[0]->waiting_tokens() != 8 * 3) std::this_thread::yield();
  engine->Release();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(engine->inputs(), 9);
  EXPECT_EQ(engine->batches(), 2);
}

TEST_F(TeiTest, HealthKnowsItsServices) {
  ServeTexts();
  for (const char* const service :
       {"tei.v1.Info", "tei.v1.Embed", "tei.v1.Predict", "tei.v1.Rerank", "tei.v1.Tokenize"}) {
    EXPECT_EQ(Health(service), grpc::health::v1::HealthCheckResponse::SERVING) << service;
  }
}

}  // namespace
}  // namespace lion
