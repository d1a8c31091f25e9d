// The account of the bytes of all calls inside, and gRPC's own buffers.
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/server/rpc_fixture.h"

namespace lion {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

class RpcMemoryTest : public RpcTest {
 protected:
  void SetUp() override {}  // every test starts its own server

  void ExpectNoRoom(const Answer& answer) {
    EXPECT_EQ(answer.status.error_code(), grpc::RESOURCE_EXHAUSTED) << answer.status.error_message();
    EXPECT_THAT(answer.status.error_message(), HasSubstr("--max-inflight-bytes"));
    EXPECT_EQ(answer.trailers.count("grpc-retry-pushback-ms"), 1u);
  }
  static v1::EmbedRequest RowPerToken(uint32_t side) {
    v1::EmbedRequest request = EmbedOf({1}, side);
    request.set_pooling(v1::POOLING_NONE);
    return request;
  }
};

TEST_F(RpcMemoryTest, RequestsAreCountedUntilTheirReplies) {
  // An input of 16 x 16 has 3072 bytes.
  Start({.max_inflight_bytes = 7000});
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  {
    InFlight calls(stub_.get());
    calls.Start(EmbedOf({1}));
    engine->AwaitEntered(1);
    calls.Start(EmbedOf({2}));
    while (registry_.models()[0]->waiting_tokens() < 5) std::this_thread::yield();
    ExpectNoRoom(Embed(EmbedOf({3})));
    engine->Release();
    calls.AwaitAll();
    EXPECT_TRUE(calls.status(0).ok());
    EXPECT_TRUE(calls.status(1).ok());
  }
  EXPECT_EQ(engine->inputs(), 2) << "what was refused cost nothing";
  // The room comes back when gRPC has sent the replies, a moment after the callers have them.
  Answer later;
  do later = Embed(EmbedOf({3, 4}));
  while (later.status.error_code() == grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(later.status.ok()) << later.status.error_message();
}

TEST_F(RpcMemoryTest, RepliesAreCountedToo) {
  // 64 x 64 pixels are 49,152 bytes and 65 rows of 16 bytes, in the message and on the wire.
  Start({.max_inflight_bytes = 3200 + 49'300});
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(EmbedOf({1}));
  engine->AwaitEntered(1);
  ExpectNoRoom(Embed(RowPerToken(64)));
  calls.Start(EmbedOf({1}, 64));
  while (registry_.models()[0]->waiting_tokens() < 65) std::this_thread::yield();
  engine->Release();
  calls.AwaitAll();
  EXPECT_TRUE(calls.status(1).ok()) << calls.status(1).error_message();
}

TEST_F(RpcMemoryTest, ClassScoresAreCounted) {
  // Two inputs with what is around them, two rows of 16 bytes, two scores of 128 bytes, but not three.
  Start({.max_inflight_bytes = 3100 + 3100 + 2 * 16 + 2 * 128});
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(EmbedOf({1}));
  engine->AwaitEntered(1);
  v1::ClassifyRequest request = ClassifyOf({1});
  ExpectNoRoom(Classify(request));
  request.set_top_k(1);
  std::thread one([&] { EXPECT_TRUE(Classify(request).status.ok()); });
  while (registry_.models()[0]->waiting_tokens() < 5) std::this_thread::yield();
  engine->Release();
  one.join();
}

TEST_F(RpcMemoryTest, ACallAloneMayExceedTheAccount) {
  Start({.max_inflight_bytes = 1});
  ServeOne();
  const Answer answer = Embed(RowPerToken(64));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

// Every one of the largest messages is answered or refused, none is lost, and alone it always passes.
TEST_F(RpcMemoryTest, LargeMessagesBeyondTheAccountAreRefusedAndTheServerGoesOn) {
  Start({.max_message_bytes = 76'000'000, .max_inflight_bytes = 1});
  ServeOne();
  const v1::EmbedRequest large = EmbedOf({1}, 2496);
  EXPECT_GT(large.ByteSizeLong(), 74'000'000u);
  {
    InFlight calls(stub_.get());
    for (int i = 0; i < 6; ++i) calls.Start(large);
    calls.AwaitAll();
    int answered = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      answered += calls.status(i).ok() ? 1 : 0;
      EXPECT_TRUE(calls.status(i).ok() || calls.status(i).error_code() == grpc::RESOURCE_EXHAUSTED)
          << calls.status(i).error_code() << ": " << calls.status(i).error_message();
    }
    EXPECT_GE(answered, 1);
  }
  Answer alone;
  do alone = Embed(large);
  while (alone.status.error_code() == grpc::RESOURCE_EXHAUSTED && alone.trailers.count("grpc-retry-pushback-ms") == 1);
  EXPECT_TRUE(alone.status.ok()) << alone.status.error_message();
}

TEST_F(RpcMemoryTest, ABatchWithoutMemoryFailsItsCallsAndNotTheServer) {
  Start({});
  PuppetEngine* engine = ServeOne();
  engine->TakeMemory();
  const Answer refused = Embed(EmbedOf({1, 2}));
  EXPECT_EQ(refused.status.error_code(), grpc::RESOURCE_EXHAUSTED) << refused.status.error_message();
  EXPECT_THAT(refused.status.error_message(), HasSubstr("no memory for the forward pass"));
  EXPECT_EQ(refused.trailers.count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(Health("puppet"), HealthCheckResponse::SERVING);
  engine->GiveMemory();
  EXPECT_TRUE(Embed(EmbedOf({1, 2})).status.ok());
}

TEST_F(RpcMemoryTest, ANegativeAccountIsAnArgumentError) {
  EXPECT_TRUE(absl::IsInvalidArgument(RpcServer::Start({.max_inflight_bytes = -1}, &registry_, &clock_).status()));
  Start({});
}

}  // namespace
}  // namespace lion
