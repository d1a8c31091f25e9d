// Faults on purpose, over the wire: each has the right status, nothing is lost or answered twice, calls that it does
// not concern are answered as ever, and the server lives on.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/held_threads.h"
#include "tests/server/rpc_fixture.h"
#include "tests/support/faults/allocation.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

class RpcFaultsTest : public RpcTest {
 protected:
  void TearDown() override {
    faults::EndFailing();
    held_.Release();
    RpcTest::TearDown();
  }

  v1::EmbedRequest Image() const {
    v1::EmbedRequest request;
    request.add_inputs()->set_image(photo_);
    return request;
  }
  static v1::EmbedRequest Of(v1::EmbedRequest request, const std::string& model) {
    request.set_model(model);
    return request;
  }
  void ExpectAnswer(float value, const std::string& model) {
    const Answer answer = Embed(Of(EmbedOf({value}), model));
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.embed.results(0).embedding().values(0), value);
  }

  // Has every allocation that `thread` makes for `request` fail, one after the other, until none is left, beside a
  // call of another model.
  void FailEachOf(const char* thread, const v1::EmbedRequest& request, int least) {
    const Answer right = Embed(request);
    ASSERT_TRUE(right.status.ok()) << right.status.error_message();
    int allocations = 0, refused = 0;
    for (bool failed = true; failed; ++allocations) {
      ASSERT_LT(allocations, 10'000);
      faults::FailOneOf(thread, allocations);
      const Answer answer = Embed(request);
      failed = faults::EndFailing();
      if (answer.status.ok()) {
        ASSERT_EQ(answer.embed.results_size(), right.embed.results_size());
        for (int i = 0; i < right.embed.results_size(); ++i) {
          ASSERT_EQ(answer.embed.results(i).SerializeAsString(), right.embed.results(i).SerializeAsString());
        }
      } else {
        ++refused;
        ASSERT_EQ(answer.status.error_code(), grpc::RESOURCE_EXHAUSTED) << answer.status.error_message();
        ASSERT_EQ(answer.trailers.count("grpc-retry-pushback-ms"), 1u);
      }
      ExpectAnswer(7, "bystander");
    }
    EXPECT_GE(refused, least) << "of " << allocations << " allocations";
    EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
    for (const SharedModel& model : models()) EXPECT_EQ(model->waiting_tokens(), 0) << "room that is never given back";
    EXPECT_TRUE(registry_.WaitEmpty(clock_.NowNs() + 10'000'000'000)) << "a call that is never over";
  }

  HeldThreads held_;
  const std::string photo_ = testing::ReadFile(testing::SourcePath("tests/golden/images/landscape.jpg"));
};

TEST_F(RpcFaultsTest, EveryAllocationOfTheBatcherMayFail) {
  AddModel("puppet");
  AddModel("bystander");
  Serve();
  FailEachOf("lion-batcher", Of(EmbedOf({1, 2, 3}), "puppet"), 3);
}

TEST_F(RpcFaultsTest, EveryAllocationOfADecodeMayFail) {
  AddModel("puppet");
  AddModel("bystander");
  Serve();
  FailEachOf("lion-decode", Of(Image(), "puppet"), 3);
}

TEST_F(RpcFaultsTest, EveryAllocationOfTokenizingMayFail) {
  AddModel("puppet", {}, PuppetEngine::OfText());
  AddModel("bystander");
  Serve();
  FailEachOf("lion-tokenize", Of(TextsOf({"the lion sleeps"}), "puppet"), 3);
}

TEST_F(RpcFaultsTest, AnEngineThatThrowsIsALostDeviceOfItsModelAlone) {
  PuppetEngine* engine = AddModel("puppet");
  AddModel("bystander");
  Serve();
  ExpectAnswer(1, "puppet");
  engine->Throw();
  InFlight calls(stub_.get());
  for (int i = 0; i < 20; ++i) calls.Start(Of(EmbedOf({1}), i % 2 == 0 ? "puppet" : "bystander"));
  calls.AwaitAll();
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls.status(i).error_code(), i % 2 == 0 ? grpc::UNAVAILABLE : grpc::OK)
        << calls.status(i).error_message();
  }
  EXPECT_THAT(calls.status(0).error_message(), HasSubstr("the device is lost: the engine threw: a string snaps"));
  EXPECT_EQ(Health("puppet"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health("bystander"), HealthCheckResponse::SERVING);
  ExpectAnswer(2, "bystander");
  EXPECT_EQ(Embed(Of(EmbedOf({1}), "puppet")).status.error_code(), grpc::UNAVAILABLE);
}

TEST_F(RpcFaultsTest, ASlowEngineLosesNothingAndComputesNothingForTheImpatient) {
  PuppetEngine* engine = ServeOne({.max_batch_tokens = 500, .max_queue_tokens = 1000});
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(EmbedOf({1}));
  engine->AwaitEntered(1);
  for (int i = 1; i <= 30; ++i) calls.Start(EmbedOf({static_cast<float>(i)}), i % 3 == 1 ? 200 : 60'000);
  while (models()[0]->waiting_tokens() < 100) std::this_thread::yield();
  for (size_t i = 2; i < calls.size(); i += 3) calls.Cancel(i);
  // They are answered although the engine is not done.
  calls.AwaitDone(20);
  EXPECT_EQ(Health("puppet"), HealthCheckResponse::SERVING);
  // What finds no room makes the queue drop what is dead, of which the server hears a little later than the caller.
  const v1::EmbedRequest large = EmbedOf(std::vector<float>(195, 0));
  while (models()[0]->waiting_tokens() > 50) {
    ASSERT_EQ(Embed(large).status.error_code(), grpc::RESOURCE_EXHAUSTED);
  }
  engine->Release();
  calls.AwaitAll();
  for (size_t i = 0; i < calls.size(); ++i) {
    constexpr grpc::StatusCode kCodes[] = {grpc::OK, grpc::DEADLINE_EXCEEDED, grpc::CANCELLED};
    EXPECT_EQ(calls.status(i).error_code(), kCodes[i % 3]) << i;
    if (i % 3 != 0 || i == 0) continue;
    EXPECT_EQ(calls.response(i).results(0).embedding().values(0), static_cast<float>(i));
  }
  EXPECT_EQ(engine->inputs(), 11) << "the held one, and those that wait for their answers";
  EXPECT_EQ(models()[0]->waiting_tokens(), 0);
}

TEST_F(RpcFaultsTest, ADecodeThatHangsHoldsUpItsThreadAlone) {
  AddModel("puppet");
  Serve();
  held_.Hold(&decode_pool_, 1);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Embed(Image()).status.ok()) << "by the other thread";
  ExpectAnswer(3, "puppet");
}

TEST_F(RpcFaultsTest, DecodesThatAllHangHoldUpWhatIsToBeDecodedUntilItsDeadline) {
  PuppetEngine* engine = AddModel("puppet");
  Serve();
  held_.Hold(&decode_pool_, 2);
  InFlight patient(stub_.get());
  patient.Start(Image());
  EXPECT_EQ(Embed(Image(), /*timeout_ms=*/100).status.error_code(), grpc::DEADLINE_EXCEEDED);
  for (int i = 0; i < 20; ++i) ExpectAnswer(3, "puppet");
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
  held_.Release();
  patient.AwaitAll();
  EXPECT_TRUE(patient.status(0).ok()) << patient.status(0).error_message();
  while (models()[0]->waiting_tokens() > 0) std::this_thread::yield();
  EXPECT_EQ(engine->inputs(), 21) << "nothing for the one that expired";
}

}  // namespace
}  // namespace lion
