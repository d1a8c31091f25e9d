// Queues, deadlines, cancellation, health and life cycle.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/server/rpc_fixture.h"

namespace lion {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

class RpcLoadTest : public RpcTest {
 protected:
  // A call that occupies the engine until Release.
  void Occupy(PuppetEngine* engine, InFlight* calls) {
    engine->Hold();
    calls->Start(EmbedOf({0}));
    engine->AwaitEntered(1);
  }
  // Until the server itself, whose queue is full, has dropped `inputs` dead ones: a call of as many inputs asks for
  // their room until it gets it. Then releases the engine. The probe's status.
  grpc::Status ReplaceTheDead(PuppetEngine* engine, int64_t inputs) {
    Answer probe;
    std::thread prober([&] {
      do {
        probe = Embed(EmbedOf(std::vector<float>(static_cast<size_t>(inputs), 2)));
      } while (probe.status.error_code() == grpc::RESOURCE_EXHAUSTED);
    });
    while (registry_.models()[0]->dropped_inputs() < inputs) std::this_thread::yield();
    engine->Release();
    prober.join();
    return probe.status;
  }
  // Until so many tokens wait; the engine is held.
  void AwaitWaiting(int64_t tokens) {
    while (registry_.models()[0]->waiting_tokens() < tokens) std::this_thread::yield();
  }
};

TEST_F(RpcLoadTest, AFullQueueRefusesWithPushback) {
  PuppetEngine* engine = ServeOne({.max_input_tokens = 10, .max_queue_tokens = 10});
  InFlight calls(stub_.get());
  Occupy(engine, &calls);
  calls.Start(EmbedOf({1, 2}));
  AwaitWaiting(10);
  const Answer refused = Embed(EmbedOf({3}));
  EXPECT_EQ(refused.status.error_code(), grpc::RESOURCE_EXHAUSTED) << refused.status.error_message();
  EXPECT_THAT(refused.status.error_message(), HasSubstr("--max-queue-tokens"));
  ASSERT_EQ(refused.trailers.count("grpc-retry-pushback-ms"), 1u);
  const int pushback_ms = std::stoi(refused.trailers.at("grpc-retry-pushback-ms"));
  EXPECT_GE(pushback_ms, 10);
  EXPECT_LE(pushback_ms, 5000);
  engine->Release();
  calls.AwaitAll();
  EXPECT_TRUE(calls.status(1).ok());
  EXPECT_EQ(engine->inputs(), 3) << "what was refused cost nothing";
}

TEST_F(RpcLoadTest, ACallThatNeverFitsTheQueueIsAnArgumentError) {
  ServeOne({.max_input_tokens = 10, .max_queue_tokens = 10});
  const Answer answer = Embed(EmbedOf({1, 2, 3}));
  EXPECT_EQ(answer.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("split the call"));
  EXPECT_EQ(answer.trailers.count("grpc-retry-pushback-ms"), 0u);
}

TEST_F(RpcLoadTest, WhatExpiresInTheQueueCostsNoCompute) {
  PuppetEngine* engine = ServeOne({.max_input_tokens = 5, .max_queue_tokens = 50});
  InFlight calls(stub_.get());
  Occupy(engine, &calls);
  for (int i = 0; i < 10; ++i) calls.Start(EmbedOf({1}), /*timeout_ms=*/20);
  calls.AwaitDone(10);
  EXPECT_TRUE(ReplaceTheDead(engine, 10).ok());
  calls.AwaitAll();
  for (size_t i = 1; i <= 10; ++i) EXPECT_EQ(calls.status(i).error_code(), grpc::DEADLINE_EXCEEDED) << i;
  EXPECT_EQ(engine->inputs(), 1 + 10) << "the first call's and the probe's";
}

TEST_F(RpcLoadTest, TheServerItselfAnswersAnExpiredCall) {
  PuppetEngine* engine = ServeOne();
  InFlight calls(stub_.get());
  Occupy(engine, &calls);
  // Long enough to be admitted before; the caller itself would wait longer.
  constexpr int64_t kTimeoutMs = 100;
  v1::EmbedRequest request = EmbedOf({1});
  request.mutable_options()->set_timeout_ms(kTimeoutMs);
  calls.Start(request);
  AwaitWaiting(5);
  const int64_t expired_ns = clock_.NowNs() + kTimeoutMs * 1'000'000;
  while (clock_.NowNs() < expired_ns) std::this_thread::yield();
  engine->Release();
  calls.AwaitAll();
  EXPECT_EQ(calls.status(1).error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(engine->inputs(), 1);
}

TEST_F(RpcLoadTest, CancelledCallsAreNotComputed) {
  PuppetEngine* engine = ServeOne({.max_input_tokens = 5, .max_queue_tokens = 500});
  InFlight calls(stub_.get());
  Occupy(engine, &calls);
  for (int i = 0; i < 100; ++i) calls.Start(EmbedOf({1}));
  AwaitWaiting(500);
  for (size_t i = 1; i <= 99; ++i) calls.Cancel(i);
  calls.AwaitDone(99);
  EXPECT_TRUE(ReplaceTheDead(engine, 99).ok());
  calls.AwaitAll();
  for (size_t i = 1; i <= 99; ++i) EXPECT_EQ(calls.status(i).error_code(), grpc::CANCELLED);
  EXPECT_TRUE(calls.status(100).ok());
  EXPECT_EQ(engine->inputs(), 1 + 1 + 99);
}

TEST_F(RpcLoadTest, NothingIsServedBeforeTheModelsAre) {
  AddModel("puppet");
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health("lion.v1.LionService"), HealthCheckResponse::NOT_SERVING);
  const Answer early = Embed(EmbedOf({1}));
  EXPECT_EQ(early.status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(early.status.error_message(), HasSubstr("starting"));
  Serve();
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("lion.v1.LionService"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("puppet"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("nope"), HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_TRUE(Embed(EmbedOf({1})).status.ok());
}

TEST_F(RpcLoadTest, AModelIsKnownBeforeItServes) {
  server_->SetServing({"puppet"}, false);
  EXPECT_EQ(Health("puppet"), HealthCheckResponse::NOT_SERVING);
}

TEST_F(RpcLoadTest, WhatHasFailedIsNeverServingAgain) {
  server_->SetServing({"", "good", "bad"}, false);
  server_->SetFailed({"", "bad"});
  server_->SetServing({"", "good", "bad"}, true);
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health("bad"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health("good"), HealthCheckResponse::SERVING);
}

TEST_F(RpcLoadTest, WarmUpGrowsToTheBatchBudgetAndNoFurther) {
  PuppetEngine* engine = AddModel("puppet", {.max_batch_tokens = 50});
  std::vector<std::string> lines;
  ASSERT_TRUE(models_[0]
                  ->WarmUp(
                      kNever / 2, kNever / 2, [&](const std::string& line) { lines.push_back(line); },
                      [](const std::string& warning) { FAIL() << warning; })
                  .ok());
  // Batches of 1, 2, 4, 8 and 10 images of 5 tokens.
  EXPECT_EQ(engine->batches(), 5);
  EXPECT_EQ(engine->inputs(), 25);
  EXPECT_EQ(lines.size(), 5u);
  ASSERT_TRUE(models_[0]
                  ->WarmUp(
                      0, kNever / 2, [](const std::string&) {}, [](const std::string&) {})
                  .ok());
  EXPECT_EQ(engine->batches(), 6) << "one image even without time";
  ASSERT_TRUE(models_[0]
                  ->WarmUp(
                      kNever / 2, 0, [](const std::string&) {}, [](const std::string&) {})
                  .ok());
  EXPECT_EQ(engine->batches(), 7) << "nor a larger batch than may hold the device";
}

// Fails every image.
class BlindEngine : public PuppetEngine {
 public:
  absl::Status Forward(std::span<const Request> requests, std::span<Result> results) override {
    if (absl::Status status = PuppetEngine::Forward(requests, results); !status.ok()) return status;
    for (Result& result : results) result.status = absl::InternalError("the output is not finite");
    return absl::OkStatus();
  }
};

TEST_F(RpcLoadTest, WarmUpWarnsOfAModelThatFailsABlankImage) {
  AddModel("puppet", {}, std::make_unique<BlindEngine>());
  std::vector<std::string> warnings;
  const auto warning = [&](const std::string& line) { warnings.push_back(line); };
  ASSERT_TRUE(models_[0]
                  ->WarmUp(
                      0, kNever / 2, [](const std::string&) {}, warning)
                  .ok());
  EXPECT_THAT(warnings,
              ::testing::ElementsAre(HasSubstr("model puppet answers a blank input with: the output is not")));
}

TEST_F(RpcLoadTest, DrainingFinishesWhatWasAcceptedAndRefusesTheRest) {
  PuppetEngine* engine = ServeOne();
  InFlight calls(stub_.get());
  Occupy(engine, &calls);
  for (int i = 0; i < 20; ++i) calls.Start(EmbedOf({static_cast<float>(i)}));
  AwaitWaiting(100);
  server_->StopServing();
  registry_.Drain();
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health("puppet"), HealthCheckResponse::NOT_SERVING);
  const Answer late = Embed(EmbedOf({1}));
  EXPECT_EQ(late.status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(late.status.error_message(), HasSubstr("shutting down"));
  EXPECT_FALSE(registry_.WaitEmpty(clock_.NowNs()));
  engine->Release();
  calls.AwaitAll();
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_TRUE(calls.status(i).ok()) << i;
  EXPECT_TRUE(registry_.WaitEmpty(kNever));
}

TEST_F(RpcLoadTest, ALostDeviceIsNotServingAndAnswersUnavailable) {
  PuppetEngine* engine = ServeOne();
  engine->Fail();
  const Answer first = Embed(EmbedOf({1}));
  EXPECT_EQ(first.status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(first.status.error_message(), HasSubstr("strings are cut"));
  EXPECT_EQ(Health("puppet"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Embed(EmbedOf({1})).status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(engine->batches(), 1) << "nothing more is tried";
}

TEST_F(RpcLoadTest, ABusyPortIsAnError) {
  RpcServerOptions options;
  options.host = "127.0.0.1";
  options.port = server_->port();
  const absl::Status status = RpcServer::Start(options, &registry_, &clock_).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("127.0.0.1:", options.port)));
}

TEST_F(RpcLoadTest, ReflectionListsTheServices) {
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  grpc::ClientContext context;
  auto call = stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(next());
  // ServerReflectionRequest{list_services (7): ""}
  const grpc::Slice request("\x3a\x00", 2);
  call->Write(grpc::ByteBuffer(&request, 1), nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  ASSERT_TRUE(next());
  grpc::Slice bytes;
  ASSERT_TRUE(response.DumpToSingleSlice(&bytes).ok());
  for (const std::string& service : kServiceNames) {
    EXPECT_THAT(std::string(bytes.begin(), bytes.end()), HasSubstr(service));
  }
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  EXPECT_TRUE(next());
}

TEST_F(RpcLoadTest, ListensOnIpv6) {
  RpcServerOptions options;
  options.host = "::1";
  options.port = 0;
  absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(options, &registry_, &clock_);
  if (!server.ok()) GTEST_SKIP() << "this machine has no IPv6: " << server.status();
  auto channel = grpc::CreateChannel(absl::StrCat("[::1]:", (*server)->port()), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_TRUE(grpc::health::v1::Health::NewStub(channel)->Check(&context, {}, &response).ok());
}

}  // namespace
}  // namespace lion
