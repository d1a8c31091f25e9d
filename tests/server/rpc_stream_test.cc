// EmbedStream and ClassifyStream: one ending for every request, each failing for itself, and how streams end.
#include <gmock/gmock.h>

#include <thread>

#include "tests/server/rpc_stream_fixture.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(RpcStreamTest, EveryRequestIsAnsweredUnderItsNumber) {
  ServeOne();
  Stream stream(stub_.get());
  for (int i = 0; i < 100; ++i) {
    v1::EmbedRequest request = EmbedOf({static_cast<float>(i)});
    request.set_request_id("id" + std::to_string(i));
    ASSERT_TRUE(stream.Write(request));
  }
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    const v1::EmbedResponse response = stream.Read();
    ASSERT_FALSE(response.has_error()) << response.error().message();
    EXPECT_TRUE(seen.insert(response.sequence()).second);
    EXPECT_EQ(response.request_id(), "id" + std::to_string(response.sequence()));
    EXPECT_EQ(response.model(), "puppet");
    ASSERT_EQ(response.results_size(), 1);
    EXPECT_EQ(response.results(0).embedding().values(0), static_cast<float>(response.sequence()));
    EXPECT_GT(response.timing().total_ns(), 0u);
  }
  EXPECT_TRUE(stream.End().ok());
  EXPECT_EQ(stream.left_over, 0);
}

TEST_F(RpcStreamTest, ClassifyStreamAnswersToo) {
  ServeOne();
  grpc::ClientContext context;
  const auto stream = stub_->ClassifyStream(&context);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Write(ClassifyOf({1, 2})));
  stream->WritesDone();
  v1::ClassifyResponse response;
  int responses = 0;
  while (stream->Read(&response)) {
    ++responses;
    EXPECT_EQ(response.results_size(), 2);
    EXPECT_EQ(response.results(0).classification().scores_size(), 3);
  }
  EXPECT_EQ(responses, 3);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(RpcStreamTest, WhatIsUrgentIsAnsweredFirst) {
  PuppetEngine* engine = ServeOne({.max_batch_inputs = 1});
  engine->Hold();
  Stream stream(stub_.get());
  ASSERT_TRUE(stream.Write(EmbedOf({0})));
  engine->AwaitEntered(1);
  ASSERT_TRUE(stream.Write(EmbedOf({1})));
  v1::EmbedRequest urgent = EmbedOf({2});
  urgent.mutable_options()->set_priority(9);
  ASSERT_TRUE(stream.Write(urgent));
  // Until all three are inside, two of them waiting.
  while (models().front()->waiting_tokens() < 2 * 5) std::this_thread::yield();
  engine->Release();
  std::vector<uint64_t> order;
  for (int i = 0; i < 3; ++i) order.push_back(stream.Read().sequence());
  EXPECT_THAT(order, ElementsAre(0, 2, 1));
  EXPECT_TRUE(stream.End().ok());
}

TEST_F(RpcStreamTest, ABadRequestFailsItsOwnResponseAndNeverTheStream) {
  ServeOne();
  Stream stream(stub_.get());
  const auto expect_error = [&stream](grpc::StatusCode code, const std::string& message) {
    const v1::EmbedResponse response = stream.Read();
    EXPECT_EQ(response.error().code(), code);
    EXPECT_THAT(response.error().message(), HasSubstr(message));
    EXPECT_EQ(response.results_size(), 0);
  };
  ASSERT_TRUE(stream.Write({}));
  expect_error(grpc::INVALID_ARGUMENT, "inputs is empty");
  v1::EmbedRequest unknown = EmbedOf({1});
  unknown.set_model("nobody");
  ASSERT_TRUE(stream.Write(unknown));
  expect_error(grpc::NOT_FOUND, "nobody");
  v1::EmbedRequest text;
  text.add_inputs()->set_text("x");
  text.set_request_id("the third");
  ASSERT_TRUE(stream.Write(text));
  const v1::EmbedResponse third = stream.Read();
  EXPECT_EQ(third.error().code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(third.error().message(), HasSubstr("input 0: "));
  EXPECT_EQ(third.request_id(), "the third");
  EXPECT_EQ(third.sequence(), 2u);
  v1::EmbedRequest not_utf8 = EmbedOf({1});
  not_utf8.set_model("\xff");
  ASSERT_TRUE(stream.Write(not_utf8));
  expect_error(grpc::INTERNAL, "not a valid lion.v1.EmbedRequest");
  ASSERT_TRUE(stream.Write(EmbedOf({7})));
  const v1::EmbedResponse good = stream.Read();
  EXPECT_EQ(good.sequence(), 4u);
  EXPECT_EQ(good.results(0).embedding().values(0), 7);
  EXPECT_TRUE(stream.End().ok());
}

// A response with such a string in it could not be read, and would end the stream. (Found by fuzz_rpc.)
TEST_F(RpcStreamTest, AnIdThatIsNotUtf8IsNotSentBack) {
  ServeOne();
  Stream stream(stub_.get());
  v1::EmbedRequest request = EmbedOf({1});
  request.set_request_id("\xff");
  ASSERT_TRUE(stream.Write(request));
  const v1::EmbedResponse response = stream.Read();
  EXPECT_EQ(response.error().code(), grpc::INTERNAL);
  EXPECT_EQ(response.request_id(), "");
  EXPECT_TRUE(stream.End().ok());
}

TEST_F(RpcStreamTest, TimeoutsCountFromReceiptAndCostNoCompute) {
  constexpr int64_t kTimeoutMs = 300;
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  Stream stream(stub_.get());
  ASSERT_TRUE(stream.Write(EmbedOf({0})));
  engine->AwaitEntered(1);
  v1::EmbedRequest hasty = EmbedOf({1});
  hasty.mutable_options()->set_timeout_ms(kTimeoutMs);
  ASSERT_TRUE(stream.Write(hasty));
  ASSERT_TRUE(stream.Write(EmbedOf({2})));
  // Until the third is inside, and the second, received before it, out of time.
  while (models().front()->waiting_tokens() < 5) std::this_thread::yield();
  for (const int64_t then = clock_.NowNs() + (kTimeoutMs + 1) * 1'000'000; clock_.NowNs() < then;) {
    std::this_thread::yield();
  }
  engine->Release();
  for (int i = 0; i < 3; ++i) {
    const v1::EmbedResponse response = stream.Read();
    EXPECT_EQ(response.error().code(), response.sequence() == 1 ? grpc::DEADLINE_EXCEEDED : grpc::OK);
  }
  EXPECT_EQ(engine->inputs(), 2);
  EXPECT_TRUE(stream.End().ok());
}

TEST_F(RpcStreamTest, ACancelledStreamIsNotComputed) {
  PuppetEngine* engine = ServeOne({.max_batch_tokens = 5, .max_input_tokens = 5, .max_queue_tokens = 19 * 5});
  engine->Hold();
  const ModelService& model = *models().front();
  {
    Stream stream(stub_.get());
    ASSERT_TRUE(stream.Write(EmbedOf({1})));
    engine->AwaitEntered(1);
    for (int i = 0; i < 19; ++i) ASSERT_TRUE(stream.Write(EmbedOf({1})));
    while (model.waiting_tokens() < 19 * 5) std::this_thread::yield();
    stream.context.TryCancel();
    EXPECT_EQ(stream.End().error_code(), grpc::CANCELLED);
  }
  // The queue is full of them. Once the server knows, which may be later than the client does, those who need room have
  // them dropped.
  InFlight probes(stub_.get());
  while (model.dropped_inputs() < 19) {
    probes.Start(EmbedOf({1}));
    for (const int64_t then = clock_.NowNs() + 1'000'000; clock_.NowNs() < then;) std::this_thread::yield();
  }
  engine->Release();
  probes.AwaitAll();
  int answered = 0;
  for (size_t i = 0; i < probes.size(); ++i) {
    answered += probes.status(i).ok();
    EXPECT_TRUE(probes.status(i).ok() || probes.status(i).error_code() == grpc::RESOURCE_EXHAUSTED);
  }
  EXPECT_GE(answered, 1);
  EXPECT_EQ(engine->inputs(), 1 + answered) << "something cancelled was computed";
}

TEST_F(RpcStreamTest, WhatTheQueueHasNoRoomForWaitsBehindItsOwnStream) {
  ServeOne({.max_batch_tokens = 10, .max_input_tokens = 5, .max_queue_tokens = 10});
  Stream stream(stub_.get());
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(stream.Write(EmbedOf({static_cast<float>(i)})));
  for (int i = 0; i < 200; ++i) {
    const v1::EmbedResponse response = stream.Read();
    EXPECT_FALSE(response.has_error()) << response.error().message();
  }
  EXPECT_TRUE(stream.End().ok());
}

TEST_F(RpcStreamTest, AFullQueueRefusesAStreamThatHasNothingElseInside) {
  PuppetEngine* engine = ServeOne({.max_batch_tokens = 5, .max_input_tokens = 5, .max_queue_tokens = 5});
  engine->Hold();
  InFlight others(stub_.get());
  others.Start(EmbedOf({1}));
  engine->AwaitEntered(1);
  others.Start(EmbedOf({1}));
  while (models().front()->waiting_tokens() < 5) std::this_thread::yield();
  Stream stream(stub_.get());
  ASSERT_TRUE(stream.Write(EmbedOf({2})));
  const v1::EmbedResponse response = stream.Read();
  EXPECT_EQ(response.error().code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(response.error().message(), HasSubstr("the queue is full"));
  engine->Release();
  others.AwaitAll();
  ASSERT_TRUE(stream.Write(EmbedOf({3})));
  EXPECT_FALSE(stream.Read().has_error());
  EXPECT_TRUE(stream.End().ok());
}

TEST_F(RpcStreamTest, DrainingAnswersWhatWasReadAndEndsEveryStream) {
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  Stream idle(stub_.get());
  Stream busy(stub_.get());
  ASSERT_TRUE(busy.Write(EmbedOf({5})));
  engine->AwaitEntered(1);
  registry_.Drain();
  server_->DrainStreams();
  EXPECT_EQ(idle.End().error_code(), grpc::UNAVAILABLE);
  engine->Release();
  EXPECT_EQ(busy.Read().results(0).embedding().values(0), 5);
  v1::EmbedResponse response;
  EXPECT_FALSE(busy.rpc->Read(&response));
  busy.ended = true;
  const grpc::Status status = busy.rpc->Finish();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("shutting down"));
  EXPECT_TRUE(registry_.WaitEmpty(kNever));
  Stream late(stub_.get());
  EXPECT_EQ(late.End().error_code(), grpc::UNAVAILABLE);
}

TEST_F(RpcStreamTest, ThereIsNoStreamBeforeTheServerServes) {
  Stream stream(stub_.get());
  EXPECT_EQ(stream.End().error_code(), grpc::UNAVAILABLE);
}

TEST_F(RpcStreamTest, TheStreamsOwnDeadlineEndsIt) {
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const auto stream = stub_->EmbedStream(&context);
  stream->Write(EmbedOf({1}));
  v1::EmbedResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace lion
