// Large allocations that fail inside the server.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/rpc_fixture.h"
#include "tests/support/faults/allocation.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using faults::fails_in;
using faults::kAny;
using faults::largest_bytes;
using faults::refused;
using faults::watched;
using faults::watched_bytes;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

class RpcOutOfMemoryTest : public RpcTest {
 protected:
  void SetUp() override {
    faults::is_exempt = true;
    RpcTest::SetUp();
  }
  // The same call refused for lack of memory, with a time to try again, and then answered. `bytes`: the largest block
  // there is in between, more than gRPC needs for itself.
  void ExpectRefusedThenAnswered(const v1::EmbedRequest& request, size_t bytes, const std::string& message) {
    largest_bytes = bytes;
    const Answer answer = Embed(request);
    largest_bytes = kAny;
    EXPECT_GE(refused, 1) << "nothing was refused: this test shows nothing";
    EXPECT_EQ(answer.status.error_code(), grpc::RESOURCE_EXHAUSTED) << answer.status.error_message();
    EXPECT_THAT(answer.status.error_message(), HasSubstr(message));
    EXPECT_EQ(answer.trailers.count("grpc-retry-pushback-ms"), 1u);
    EXPECT_EQ(Health("puppet"), HealthCheckResponse::SERVING);
    const Answer later = Embed(request);
    EXPECT_TRUE(later.status.ok()) << later.status.error_message();
  }
};

TEST_F(RpcOutOfMemoryTest, ADecodeWithoutMemoryFailsItsCallAlone) {
  ServeOne();
  v1::EmbedRequest request;
  request.add_inputs()->set_image(testing::ReadFile(testing::SourcePath("tests/golden/images/rgb.png")));
  request.mutable_options()->mutable_image()->set_resize(v1::ImageOptions::RESIZE_STRETCH);
  request.mutable_options()->mutable_image()->set_size(4096);
  ExpectRefusedThenAnswered(request, 20'000, "memory");
}

TEST_F(RpcOutOfMemoryTest, ATextWithoutMemoryForItsTokensFailsItsCallAlone) {
  ServeTexts();
  // The text itself takes 100 kB, the ids of its tokens 400 kB.
  ExpectRefusedThenAnswered(TextsOf({std::string(100'000, '.')}), 150'000, "no memory to prepare the input");
}

TEST_F(RpcOutOfMemoryTest, InputsBeyondTheirNumberAreNotEvenParsed) {
  ServeOne();
  // 400 kB on the wire; the list of their addresses alone takes 1.6 MB.
  v1::EmbedRequest request;
  for (int i = 0; i < 200'000; ++i) request.add_inputs();
  const int refused_before = refused;
  largest_bytes = 1'000'000;
  const Answer answer = Embed(request);
  largest_bytes = kAny;
  EXPECT_EQ(refused, refused_before);
  EXPECT_EQ(answer.status.error_code(), grpc::INVALID_ARGUMENT) << answer.status.error_message();
  EXPECT_THAT(answer.status.error_message(), HasSubstr("200000 inputs, the limit is 1024"));
}

TEST_F(RpcOutOfMemoryTest, AReplyWithoutMemoryFailsItsCallAlone) {
  v1::EmbedRequest request;
  v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
  pixels->set_height(512);
  pixels->set_width(512);
  pixels->set_type(v1::PixelTensor::TYPE_UINT8);
  pixels->set_data(std::string(size_t{3} * 512 * 512, '\x21'));
  request.set_pooling(v1::POOLING_NONE);
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(request);
  engine->AwaitEntered(1);
  // The engine's 4097 rows of 16 bytes, but not the same with a header before them.
  largest_bytes = 4097 * 16;
  engine->Release();
  calls.AwaitAll();
  largest_bytes = kAny;
  EXPECT_EQ(calls.status(0).error_code(), grpc::RESOURCE_EXHAUSTED) << calls.status(0).error_message();
  EXPECT_THAT(calls.status(0).error_message(), HasSubstr("no memory for the reply"));
  EXPECT_TRUE(Embed(request).status.ok());
}

class QueueOutOfMemoryTest : public RpcOutOfMemoryTest {
 protected:
  // A call of as many inputs as one may have waits behind a batch that is held.
  void FillQueue() {
    calls_ = std::make_unique<InFlight>(stub_.get());
    // All in one batch, however long the one that is held takes.
    engine_ = ServeTexts({.max_batch_ms = 0});
    engine_->Hold();
    calls_->Start(TokensOf({1}));
    engine_->AwaitEntered(1);
    v1::EmbedRequest request;
    for (int i = 0; i < kInputs; ++i) *request.add_inputs() = TokensOf({1}).inputs(0);
    watched = 0;
    watched_bytes = kInputs * sizeof(QueuedTask);
    calls_->Start(request);
    // The queue's own and the new entries: allocated under a lock that waiting_tokens() takes, too.
    while (watched < 2) std::this_thread::yield();
    watched_bytes = kAny;
    AwaitWaiting(kInputs);
  }
  void AwaitWaiting(int64_t tokens) {
    while (models()[0]->waiting_tokens() != tokens) std::this_thread::yield();
  }
  void TearDown() override {
    largest_bytes = kAny;
    engine_->Release();
    calls_.reset();
    RpcOutOfMemoryTest::TearDown();
  }

  static constexpr int kInputs = 1024;
  PuppetEngine* engine_ = nullptr;
  std::unique_ptr<InFlight> calls_;
};

TEST_F(QueueOutOfMemoryTest, ACallForWhichItCannotGrowIsAnsweredOnce) {
  FillQueue();
  // The queue, full to its capacity, must double for another.
  v1::EmbedRequest request = TextsOf({"lion"});
  *request.add_inputs() = TokensOf({1}).inputs(0);
  const int refused_before = refused;
  largest_bytes = 100'000;
  const Answer answer = Embed(request);
  largest_bytes = kAny;
  EXPECT_GT(refused, refused_before) << "nothing was refused: this test shows nothing";
  EXPECT_EQ(answer.status.error_code(), grpc::RESOURCE_EXHAUSTED) << answer.status.error_message();
  EXPECT_THAT(answer.status.error_message(), HasSubstr("no memory to queue the input"));
  EXPECT_EQ(answer.trailers.count("grpc-retry-pushback-ms"), 1u);
  AwaitWaiting(kInputs);
  engine_->Release();
  calls_->AwaitAll();
  for (size_t i = 0; i < calls_->size(); ++i) EXPECT_TRUE(calls_->status(i).ok()) << calls_->status(i).error_message();
  EXPECT_TRUE(Embed(request).status.ok());
  AwaitWaiting(0);
}

TEST_F(QueueOutOfMemoryTest, ABatchThatCannotBeRunFailsItsCalls) {
  FillQueue();
  const int refused_before = refused;
  largest_bytes = kInputs * sizeof(Request) - 1;
  engine_->Release();
  calls_->AwaitAll();
  largest_bytes = kAny;
  EXPECT_GT(refused, refused_before) << "nothing was refused: this test shows nothing";
  EXPECT_TRUE(calls_->status(0).ok()) << calls_->status(0).error_message();
  EXPECT_EQ(calls_->status(1).error_code(), grpc::RESOURCE_EXHAUSTED) << calls_->status(1).error_message();
  EXPECT_THAT(calls_->status(1).error_message(), HasSubstr("no memory to run the batch"));
  EXPECT_TRUE(Embed(TokensOf({1})).status.ok());
  AwaitWaiting(0);
}

class IgnoredTask : public BatchTask {
 public:
  void Drop(const absl::Status&) override {}
};

TEST(BatcherOutOfMemoryTest, ABatchThatCannotBeFormedIsFormedLater) {
  faults::is_exempt = true;
  SteadyClock clock;
  std::atomic<size_t> run = 0;
  std::atomic<bool> running = false;
  std::atomic<bool> held = true;
  absl::StatusOr<std::unique_ptr<Batcher>> batcher =
      Batcher::Create({.limits = {.max_tokens = 1000}}, &clock, nullptr, [&](Batch batch) {
        running = true;
        while (held) std::this_thread::yield();
        run += batch.tasks.size();
      });
  ASSERT_TRUE(batcher.ok()) << batcher.status();
  const auto submit = [&](size_t count) {
    std::vector<Batcher::Entry> entries(count);
    for (Batcher::Entry& entry : entries) {
      entry.reservation = *(*batcher)->Reserve(1);
      entry.task = std::make_unique<IgnoredTask>();
    }
    (*batcher)->Submit(std::move(entries));
  };
  submit(1);
  while (!running) std::this_thread::yield();
  submit(1000);
  const int refused_before = refused;
  largest_bytes = 100;
  held = false;
  while (refused == refused_before) std::this_thread::yield();
  EXPECT_EQ((*batcher)->reserved_tokens(), 1000);
  largest_bytes = kAny;
  ASSERT_TRUE((*batcher)->WaitIdle(kNever));
  EXPECT_EQ(run, 1001u);
}

TEST(BatcherOutOfMemoryTest, WhatIsNotSubmittedIsAsItWas) {
  faults::is_exempt = true;
  SteadyClock clock;
  std::atomic<size_t> run = 0;
  absl::StatusOr<std::unique_ptr<Batcher>> batcher =
      Batcher::Create({.max_queue_tokens = 1000}, &clock, nullptr, [&run](Batch batch) { run += batch.tasks.size(); });
  ASSERT_TRUE(batcher.ok()) << batcher.status();
  constexpr int kEntries = 50;
  std::vector<Batcher::Entry> entries(kEntries);
  for (int i = 0; i < kEntries; ++i) {
    entries[i].caller = static_cast<uint64_t>(i % 7);
    entries[i].reservation = *(*batcher)->Reserve(1);
    entries[i].task = std::make_unique<IgnoredTask>();
  }
  // Each allocation is refused once, until none is left to refuse.
  int64_t tries = 0;
  for (bool submitted = false; !submitted; ++tries) {
    fails_in = tries;
    try {
      (*batcher)->Submit(std::move(entries));
      submitted = true;
    } catch (const std::bad_alloc&) {
    }
    fails_in = -1;
    for (const Batcher::Entry& entry : entries) ASSERT_EQ(entry.task == nullptr, submitted);
    if (!submitted) {
      ASSERT_EQ((*batcher)->reserved_tokens(), kEntries);
    }
  }
  EXPECT_GT(tries, kEntries);
  (*batcher)->Drain();
  ASSERT_TRUE((*batcher)->WaitIdle(kNever));
  EXPECT_EQ(run, size_t{kEntries});
}

}  // namespace
}  // namespace lion
