// What is counted of calls and their inputs.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/rpc_text_fixture.h"

namespace lion {
namespace {

class CountingMetrics : public ModelMetrics {
 public:
  void CountRejected(RejectReason reason, int64_t inputs) override { rejected_[static_cast<size_t>(reason)] += inputs; }
  void AddInFlight(int64_t requests) override { in_flight_ += requests; }
  void AddQueued(int64_t inputs) override { queued_ += inputs; }

  int64_t rejected(RejectReason reason) const { return rejected_[static_cast<size_t>(reason)]; }
  int64_t all_rejected() const {
    int64_t sum = 0;
    for (const std::atomic<int64_t>& inputs : rejected_) sum += inputs;
    return sum;
  }
  int64_t in_flight() const { return in_flight_; }
  int64_t queued() const { return queued_; }

 private:
  std::atomic<int64_t> rejected_[kRejectReasons] = {};
  std::atomic<int64_t> in_flight_ = 0;
  std::atomic<int64_t> queued_ = 0;
};

struct Counts {
  CountingMetrics counts_;
};

// The first base goes last: the threads of the models count until they have ended.
class RpcMetricsTest : protected Counts, public RpcHeldTextsTest {
 protected:
  RpcMetricsTest() { metrics_ = &counts_; }
};

TEST_F(RpcMetricsTest, InputsThatABadOneTakesWithItAreNotRejected) {
  PuppetEngine* engine = ServeTexts({.max_input_tokens = 8});
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(TokensOf({1}));
  engine->AwaitEntered(1);
  std::vector<std::string> texts(100, "a");
  texts[50] = "a b c d e f g h i";
  calls.Start(TextsOf(texts));
  while (counts_.queued() + models()[0]->dropped_inputs() < 100) std::this_thread::yield();
  // Answered behind the bad one.
  EXPECT_TRUE(Tokenize(TextsOf<v1::TokenizeRequest>({"a"})).status.ok());
  engine->Release();
  calls.AwaitAll();
  EXPECT_EQ(calls.status(1).error_code(), grpc::INVALID_ARGUMENT) << calls.status(1).error_message();
  EXPECT_EQ(models()[0]->dropped_inputs(), 100);
  EXPECT_EQ(engine->inputs(), 1);
  EXPECT_EQ(counts_.all_rejected(), 0);
}

TEST_F(RpcMetricsTest, InputsThatTheirCallerGaveUpAre) {
  ServeTexts();
  HoldTokenizing();
  InFlight calls(stub_.get());
  calls.Start(TextsOf({"a", "b", "c"}));
  while (tokenize_pool_.waiting_work() == 0) std::this_thread::yield();
  calls.Cancel(0);
  calls.AwaitAll();
  AwaitDropped(3);
  EXPECT_EQ(counts_.rejected(RejectReason::kCancelled), 3);
  EXPECT_EQ(counts_.all_rejected(), 3);
}

TEST_F(RpcMetricsTest, InputsOfALostDeviceAreRejected) {
  ServeTexts()->Fail();
  // One input: what its company takes with it is not rejected.
  EXPECT_EQ(Embed(TextsOf({"a"})).status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(counts_.rejected(RejectReason::kUnavailable), 1);
  EXPECT_EQ(Embed(TextsOf({"a"})).status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(counts_.rejected(RejectReason::kUnavailable), 2) << "refused at once";
  EXPECT_EQ(counts_.all_rejected(), 2);
  EXPECT_EQ(counts_.queued(), 0);
}

TEST_F(RpcMetricsTest, InputsWithoutMemoryToComputeThemAreRejected) {
  PuppetEngine* engine = ServeTexts();
  engine->TakeMemory();
  EXPECT_EQ(Embed(TokensOf({1})).status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(counts_.rejected(RejectReason::kOverloaded), 1);
  engine->GiveMemory();
  EXPECT_TRUE(Embed(TokensOf({1})).status.ok());
  EXPECT_EQ(counts_.all_rejected(), 1);
}

TEST_F(RpcMetricsTest, ACallIsInFlightUntilItsCallerHasTheAnswer) {
  PuppetEngine* engine = ServeTexts();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Embed(TokensOf({1})).status.ok());
    ASSERT_EQ(counts_.in_flight(), 0);
    ASSERT_EQ(Embed(TokensOf({-1})).status.error_code(), grpc::INVALID_ARGUMENT);
    ASSERT_EQ(counts_.in_flight(), 0);
  }
  const int64_t batches = engine->batches();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(TokensOf({1}));
  engine->AwaitEntered(batches + 1);
  EXPECT_EQ(counts_.in_flight(), 1);
  engine->Release();
  calls.AwaitAll();
  EXPECT_EQ(counts_.in_flight(), 0);
}

TEST_F(RpcMetricsTest, ARequestOfAStreamIsInFlightUntilItsResponse) {
  ServeTexts();
  Stream stream(stub_.get());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(stream.Write(TokensOf({i % 2 == 0 ? 1 : -1})));
    stream.Read();
    ASSERT_EQ(counts_.in_flight(), 0);
  }
  EXPECT_TRUE(stream.End().ok());
}

}  // namespace
}  // namespace lion
