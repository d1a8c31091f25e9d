// The log's lines about calls and requests of streams, over the wire.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/server/rpc_text_fixture.h"

namespace lion {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

// Both logs; every request is slow.
class LoggedRequests {
 protected:
  std::vector<json> access() {
    MutexLock lock(mutex_);
    return access_;
  }
  std::vector<json> slow() {
    MutexLock lock(mutex_);
    return slow_;
  }
  std::string text() {
    MutexLock lock(mutex_);
    return text_;
  }

  RequestLog log_{{.slow_ms = 1, .access_log = true},
                  {.slow =
                       [this](const std::string& members) {
                         MutexLock lock(mutex_);
                         Add(members, &slow_);
                       },
                   .access =
                       [this](const std::string& members) {
                         MutexLock lock(mutex_);
                         Add(members, &access_);
                       },
                   .left_out = [](int64_t) {}}};

 private:
  void Add(const std::string& members, std::vector<json>* lines) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    lines->push_back(json::parse("{" + members + "}"));
    text_ += members;
  }

  Mutex mutex_;
  std::vector<json> access_ ABSL_GUARDED_BY(mutex_), slow_ ABSL_GUARDED_BY(mutex_);
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

// The first base goes last, as the server writes until it has ended.
class RpcRequestLogTest : protected LoggedRequests, public RpcHeldTextsTest {
 protected:
  void SetUp() override { Start({.request_log = &log_}); }

  grpc::Status EmbedWith(const std::vector<std::string>& traceparents, const v1::EmbedRequest& request) {
    grpc::ClientContext context;
    for (const std::string& traceparent : traceparents) context.AddMetadata("traceparent", traceparent);
    v1::EmbedResponse response;
    return stub_->Embed(&context, request, &response);
  }
};

TEST_F(RpcRequestLogTest, ACallHasOneLineWithItsTraceAndWithoutItsTexts) {
  ServeTexts();
  ASSERT_TRUE(EmbedWith({kTraceparent}, TextsOf({"lion", "the lion"})).ok());
  ASSERT_EQ(access().size(), 1u);
  const json line = access()[0];
  EXPECT_EQ(line["method"], "Embed");
  EXPECT_EQ(line["model"], "puppet");
  EXPECT_EQ(line["version"], "1");
  EXPECT_EQ(line["code"], "OK");
  EXPECT_EQ(line["inputs"], 2);
  EXPECT_EQ(line["trace_id"], kTrace);
  EXPECT_THAT(line["peer"].get<std::string>(), HasSubstr("127.0.0.1"));
  EXPECT_GT(line["total_ms"], 0);
  EXPECT_GE(line["tokens"], 4) << "with the special ones";
  EXPECT_THAT(text(), Not(HasSubstr("lion")));
}

TEST_F(RpcRequestLogTest, ATraceparentThatIsNoneIsIgnored) {
  ServeTexts();
  for (const std::vector<std::string>& headers : std::vector<std::vector<std::string>>{
           {}, {"00-nonsense"}, {std::string(5000, '0')}, {kTraceparent, kTraceparent}}) {
    ASSERT_TRUE(EmbedWith(headers, TokensOf({1})).ok());
  }
  ASSERT_EQ(access().size(), 4u);
  for (const json& line : access()) EXPECT_EQ(line.count("trace_id"), 0u) << line;
}

TEST_F(RpcRequestLogTest, EveryRequestOfAStreamHasALineWithTheStreamsTrace) {
  ServeTexts();
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kTraceparent);
  const auto traced = stub_->EmbedStream(&context);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(traced->Write(TokensOf({1, 2, 3})));
  ASSERT_TRUE(traced->Write(TokensOf({-1})));
  traced->WritesDone();
  v1::EmbedResponse response;
  int responses = 0;
  while (traced->Read(&response)) ++responses;
  ASSERT_TRUE(traced->Finish().ok());
  ASSERT_EQ(responses, 6);
  std::map<std::string, int> codes;
  for (const json& line : access()) {
    EXPECT_EQ(line["method"], "EmbedStream");
    EXPECT_EQ(line["trace_id"], kTrace);
    EXPECT_EQ(line["inputs"], 1);
    EXPECT_EQ(line["tokens"], line["code"] == "OK" ? 3 : 0);
    ++codes[line["code"]];
  }
  EXPECT_EQ(codes, (std::map<std::string, int>{{"OK", 5}, {"INVALID_ARGUMENT", 1}}));
}

TEST_F(RpcRequestLogTest, ASlowCallSaysInWhichStageItWas) {
  PuppetEngine* engine = ServeTexts();
  HoldTokenizing();
  InFlight calls(stub_.get());
  calls.Start(TextsOf({"lion"}));
  while (tokenize_pool_.waiting_work() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  engine->Hold();
  ReleaseTokenizing();
  engine->AwaitEntered(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  engine->Release();
  calls.AwaitAll();
  ASSERT_EQ(slow().size(), 1u);
  const json line = slow()[0];
  EXPECT_GE(line["prepare_wait_ms"], 30) << line;
  EXPECT_GE(line["compute_ms"], 20) << line;
  EXPECT_EQ(line["batch_inputs"], 1);
  double sum = 0;
  for (const char* stage : {"admit_ms", "prepare_wait_ms", "prepare_ms", "queue_ms", "compute_ms", "reply_ms"}) {
    sum += line[stage].get<double>();
  }
  EXPECT_NEAR(sum, line["total_ms"].get<double>(), 0.01) << line;
}

TEST_F(RpcRequestLogTest, ACallThatExpiresInTheQueueSaysSo) {
  PuppetEngine* engine = ServeTexts();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(TokensOf({1}));
  engine->AwaitEntered(1);
  v1::EmbedRequest hasty = TextsOf({"lion"});
  hasty.mutable_options()->set_timeout_ms(20);
  calls.Start(hasty);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  engine->Release();
  calls.AwaitAll();
  EXPECT_EQ(calls.status(1).error_code(), grpc::DEADLINE_EXCEEDED);
  for (const json& line : slow()) {
    if (line["code"] != "DEADLINE_EXCEEDED") continue;
    EXPECT_GE(line["unfinished_ms"], 10) << line;
    EXPECT_LT(line["prepare_ms"], line["unfinished_ms"]) << line;
    EXPECT_EQ(line["compute_ms"], 0) << line;
    return;
  }
  FAIL() << "no line of the expired call";
}

TEST_F(RpcRequestLogTest, RefusedCallsAndQuestionsHaveALine) {
  ServeTexts();
  v1::EmbedRequest unknown = TokensOf({1});
  unknown.set_model("a secret name");
  EXPECT_EQ(Embed(unknown).status.error_code(), grpc::NOT_FOUND);
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kTraceparent);
  v1::GetModelRequest request;
  v1::Model model;
  ASSERT_TRUE(stub_->GetModel(&context, request, &model).ok());
  ASSERT_EQ(access().size(), 2u);
  EXPECT_EQ(access()[0]["code"], "NOT_FOUND");
  EXPECT_EQ(access()[0]["model"], "unknown");
  EXPECT_EQ(access()[1]["method"], "GetModel");
  EXPECT_EQ(access()[1]["model"], "puppet");
  EXPECT_EQ(access()[1]["trace_id"], kTrace);
  EXPECT_THAT(text(), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace lion
