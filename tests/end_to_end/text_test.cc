// Texts through the real server: tokenizer, engine and all.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/v1/lion.grpc.pb.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Vector = std::vector<float>;

// LION-S and softmax models with masks, a regression and a vision model in one server.
class TextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto model = [](const char* name, const char* path) {
      return absl::StrCat(name, "=", testing::SourcePath(absl::StrCat("tests/golden/", path)));
    };
    server_ = std::make_unique<testing::ServerProcess>(std::vector<std::string>{
        "--host", "127.0.0.1", "--grpc-port", "0", "--max-input-tokens", "512", "--model",
        model("lion", "text/lion_s_mlm"), "--model", model("bert", "text/softmax_bert_mlm"), "--model",
        model("score", "text/lion_d_regression"), "--model", model("image", "vision/lit_s")});
    const int port = server_->AwaitServing();
    ASSERT_NE(port, 0) << server_->standard_error();
    stub_ = v1::LionService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }

  v1::EmbedResponse Embed(const v1::EmbedRequest& request) {
    grpc::ClientContext context;
    v1::EmbedResponse response;
    const grpc::Status status = stub_->Embed(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  std::vector<Vector> VectorsOf(const std::vector<std::string>& texts) {
    v1::EmbedRequest request;
    request.set_model("lion");
    for (const std::string& text : texts) request.add_inputs()->set_text(text);
    std::vector<Vector> vectors;
    const v1::EmbedResponse response = Embed(request);
    for (const v1::EmbedResult& result : response.results()) {
      vectors.emplace_back(result.embedding().values().begin(), result.embedding().values().end());
    }
    return vectors;
  }

  std::unique_ptr<testing::ServerProcess> server_;
  std::unique_ptr<v1::LionService::Stub> stub_;
};

TEST_F(TextTest, ATextAndItsTokenIdsHaveTheSameVector) {
  v1::Input inputs[3];
  inputs[0].set_text("The lion's river, NORTH of the caf\u00e9!");
  inputs[1].mutable_text_pair()->set_first("the king");
  inputs[1].mutable_text_pair()->set_second("a queen and a stone");
  inputs[2].set_text(" \u200b ");
  v1::TokenizeRequest tokenize;
  v1::EmbedRequest embed;
  tokenize.set_model("lion");
  embed.set_model("lion");
  for (const v1::Input& input : inputs) {
    *tokenize.add_inputs() = input;
    *embed.add_inputs() = input;
  }
  grpc::ClientContext context;
  v1::TokenizeResponse tokenized;
  const grpc::Status status = stub_->Tokenize(&context, tokenize, &tokenized);
  ASSERT_TRUE(status.ok()) << status.error_message();
  for (const v1::TokenizedInput& input : tokenized.results()) {
    v1::TokenIds* tokens = embed.add_inputs()->mutable_tokens();
    for (const v1::TokenizedInput::Token& token : input.tokens()) {
      tokens->add_ids(token.id());
      tokens->add_type_ids(token.type_id());
    }
  }
  const v1::EmbedResponse response = Embed(embed);
  ASSERT_EQ(response.results_size(), 6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(response.results(i).embedding().values_size(), 0);
    EXPECT_EQ(response.results(i).tokens(), response.results(i + 3).tokens());
    EXPECT_EQ(response.results(i).embedding().SerializeAsString(),
              response.results(i + 3).embedding().SerializeAsString());
  }
  EXPECT_EQ(response.results(2).tokens(), 2u);
}

TEST_F(TextTest, EveryThreadGetsTheVectorsOfItsTexts) {
  constexpr size_t kThreads = 16;
  constexpr size_t kTexts = 1000;  // of each thread, none of them another's
  const char* const words[] = {"lion", "river", "stone", "king", "queen", "sea", "tree", "house", "city", "water"};
  std::vector<std::string> texts;
  for (size_t i = 0; i < kThreads * kTexts; ++i) {
    std::string text;
    // Of different lengths, so that batches hold all kinds.
    for (size_t word = 0; word < 5 + i % 7; ++word) absl::StrAppend(&text, words[(i * 7 + word * word) % 10], " ");
    texts.push_back(absl::StrCat(text, i));
  }
  std::vector<Vector> alone;
  for (size_t first = 0; first < texts.size(); first += kTexts) {
    const auto begin = texts.begin() + static_cast<int64_t>(first);
    for (Vector& vector : VectorsOf({begin, begin + static_cast<int64_t>(kTexts)})) alone.push_back(std::move(vector));
  }
  ASSERT_EQ(alone.size(), texts.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      size_t next = t * kTexts;
      const size_t end = next + kTexts;
      for (size_t call = 0; next < end; ++call) {
        const size_t count = std::min(1 + call % 31, end - next);
        const auto begin = texts.begin() + static_cast<int64_t>(next);
        const std::vector<Vector> vectors = VectorsOf({begin, begin + static_cast<int64_t>(count)});
        ASSERT_EQ(vectors.size(), count);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(vectors[i], alone[next + i]) << texts[next + i];
        next += count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(TextTest, MasksAreFilledWithTheWholeVocabularysProbabilities) {
  v1::FillMaskRequest request;
  request.set_model("bert");
  request.add_inputs()->set_text("the [MASK] of the north [MASK]");
  request.set_top_k(1000);
  grpc::ClientContext context;
  v1::FillMaskResponse response;
  const grpc::Status status = stub_->FillMask(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results(0).filled().masks_size(), 2);
  EXPECT_EQ(response.results(0).filled().masks(0).position(), 2u);
  for (const v1::MaskPrediction& mask : response.results(0).filled().masks()) {
    ASSERT_EQ(mask.predictions_size(), 200);
    double sum = 0;
    for (int i = 0; i < 200; ++i) {
      sum += mask.predictions(i).probability();
      EXPECT_FALSE(mask.predictions(i).token().empty());
      EXPECT_LE(mask.predictions(i).probability(), mask.predictions(std::max(0, i - 1)).probability());
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST_F(TextTest, ModelsSayWhatTheyAreAndHowMuchTheyTake) {
  grpc::ClientContext context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(stub_->ListModels(&context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 4);
  const v1::Model& bert = list.models(0);
  EXPECT_EQ(bert.name(), "bert");
  EXPECT_EQ(bert.variant(), "softmax");
  EXPECT_EQ(bert.max_tokens(), 64u) << "its positions";
  EXPECT_THAT(bert.tasks(), ElementsAre("embed", "fill-mask"));
  EXPECT_EQ(list.models(1).modality(), v1::Model::MODALITY_VISION);
  EXPECT_EQ(list.models(2).max_tokens(), 512u) << "LION-S has no positions";
  EXPECT_THAT(list.models(3).tasks(), ElementsAre("embed", "regress"));
}

TEST_F(TextTest, PositionsLimitATextAndRecurrenceDoesNot) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "lion ";
  v1::EmbedRequest request;
  request.set_model("lion");
  request.add_inputs()->set_text(text);
  EXPECT_EQ(Embed(request).results(0).tokens(), 102u);
  request.set_model("bert");
  grpc::ClientContext context;
  v1::EmbedResponse response;
  const grpc::Status status = stub_->Embed(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              ::testing::AllOf(HasSubstr("102 tokens"), HasSubstr("64"), HasSubstr("positions")));
  request.mutable_options()->set_truncation(v1::TRUNCATION_END);
  const v1::EmbedResponse cut = Embed(request);
  EXPECT_EQ(cut.results(0).tokens(), 64u);
  EXPECT_TRUE(cut.results(0).truncated());
}

}  // namespace
}  // namespace lion
