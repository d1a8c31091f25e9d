// How lion-server starts with models of texts, with and without what belongs beside their weights.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/v1/lion.grpc.pb.h"
#include "tests/client/temporary_folder.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kExitModel = 3;

class TextStartUpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(testing::SourcePath("tests/golden/text/lion_s_mlm"), folder_.Path("model"));
  }
  std::vector<std::string> Arguments(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--host", "127.0.0.1", "--grpc-port", "0", "--model", folder_.Path("model")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void ExpectRefused(const ::testing::Matcher<std::string>& message) {
    testing::ServerProcess server(Arguments());
    EXPECT_EQ(server.AwaitExit(), kExitModel);
    EXPECT_THAT(server.standard_error(), message);
  }
  static grpc::Status Embed(int port, const v1::EmbedRequest& request, v1::EmbedResponse* response) {
    grpc::ClientContext context;
    return v1::LionService::NewStub(
               grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()))
        ->Embed(&context, request, response);
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(TextStartUpTest, WithoutATokenizerItWarnsAndTakesTokenIds) {
  std::filesystem::remove(folder_.Path("model/vocab.txt"));
  testing::ServerProcess server(Arguments());
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  EXPECT_THAT(server.standard_error(), AllOf(HasSubstr("tokenizer.json"), HasSubstr("vocab.txt"),
                                             HasSubstr("texts are refused, token ids work")));
  v1::EmbedRequest request;
  request.add_inputs()->mutable_tokens()->add_ids(2);
  v1::EmbedResponse response;
  const grpc::Status status = Embed(port, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  request.mutable_inputs(0)->set_text("lion");
  EXPECT_EQ(Embed(port, request, &response).error_code(), grpc::FAILED_PRECONDITION);
}

TEST_F(TextStartUpTest, ATokenizerOfAnotherModelIsRefused) {
  std::string vocabulary = testing::ReadFile(folder_.Path("model/vocab.txt"));
  for (int i = 0; i < 9; ++i) absl::StrAppend(&vocabulary, "more", i, "\n");
  folder_.Write("model/vocab.txt", vocabulary);
  ExpectRefused(AllOf(HasSubstr("209"), HasSubstr("200")));
}

TEST_F(TextStartUpTest, AMalformedTokenizerIsRefused) {
  folder_.Write("model/tokenizer.json", "{\"model\": 3}");
  ExpectRefused(HasSubstr("tokenizer.json"));
}

TEST_F(TextStartUpTest, TheTokenizersOwnLengthIsTheLimitUnlessTheFlagNamesOne) {
  folder_.Write("model/tokenizer_config.json", "{\"model_max_length\": 16}");
  v1::EmbedRequest request;
  request.add_inputs()->set_text("a b c d e f g h i j k l m n o p q r s t");
  v1::EmbedResponse response;
  {
    testing::ServerProcess server(Arguments());
    const grpc::Status status = Embed(server.AwaitServing(), request, &response);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), AllOf(HasSubstr("22"), HasSubstr("16"), HasSubstr("model_max_length")));
  }
  {
    testing::ServerProcess server(Arguments({"--truncation", "end"}));
    const grpc::Status status = Embed(server.AwaitServing(), request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.results(0).tokens(), 16u);
    EXPECT_TRUE(response.results(0).truncated());
  }
  testing::ServerProcess server(Arguments({"--max-input-tokens", "100"}));
  const grpc::Status status = Embed(server.AwaitServing(), request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.results(0).tokens(), 22u);
}

}  // namespace
}  // namespace lion
