// Many texts at once: room in the queue, turns, and whose answer is whose.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/rpc_text_fixture.h"

namespace lion {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using RpcTextLoadTest = RpcHeldTextsTest;

TEST_F(RpcTextLoadTest, EveryAnswerBelongsToItsText) {
  ServeTexts({.max_batch_tokens = 100});
  constexpr int kThreads = 16;
  constexpr int kTexts = 1000;
  constexpr int kTextsOfACall = 10;
  // All distinct: a number in letters, of which the puppet's answer weighs every one by its place.
  const auto text_of = [](int number) {
    std::string text;
    for (int left = number + 1; left > 0; left /= 13) text += std::string(1, static_cast<char>('b' + left % 13)) + " ";
    return text;
  };
  const auto value_of = [](int number) {
    int64_t sum = 2;  // [CLS]
    int64_t place = 2;
    for (int left = number + 1; left > 0; left /= 13) sum += place++ * (6 + left % 13);
    return static_cast<float>(sum + place * 3);  // [SEP]
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int first = 0; first < kTexts; first += kTextsOfACall) {
        std::vector<std::string> texts;
        for (int i = 0; i < kTextsOfACall; ++i) texts.push_back(text_of(t * kTexts + first + i));
        Answer answer;
        do {
          answer = Embed(TextsOf(texts));
        } while (answer.status.error_code() == grpc::RESOURCE_EXHAUSTED);
        ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
        for (int i = 0; i < kTextsOfACall; ++i) {
          ASSERT_EQ(answer.embed.results(i).embedding().values(0), value_of(t * kTexts + first + i)) << texts[i];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  AwaitWaiting(0);
}

TEST_F(RpcTextLoadTest, RoomIsReservedForTheBytesAndThenForTheTokens) {
  PuppetEngine* engine = ServeTexts({.max_input_tokens = 50});
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(TokensOf({1}));
  engine->AwaitEntered(1);
  HoldTokenizing();
  // 10 bytes with 2 special tokens, and one that could exceed the limit; 4 and 22 tokens.
  calls.Start(TextsOf({"lion river", std::string(20, '.') + std::string(100, ' ')}));
  AwaitWaiting(12 + 50);
  ReleaseTokenizing();
  AwaitWaiting(4 + 22);
  engine->Release();
  calls.AwaitAll();
  ASSERT_TRUE(calls.status(1).ok()) << calls.status(1).error_message();
  EXPECT_EQ(calls.response(1).timing().batch_tokens(), 26u);
  EXPECT_GT(calls.response(1).timing().queue_ns(), 0u);
  AwaitWaiting(0);
}

TEST_F(RpcTextLoadTest, WhatTextsCouldComeToIsNoReasonToRefuseACall) {
  ServeTexts({.max_input_tokens = 100, .max_queue_tokens = 100});
  // 4 tokens each, of 12 that the bytes would allow.
  Answer answer = Embed(TextsOf(std::vector<std::string>(25, "lion river")));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  AwaitWaiting(0);
  // Only when tokenized it is too much: 48 of 2 tokens, and one of 8 where they leave 4.
  std::vector<std::string> texts(48, " ");
  texts.insert(texts.begin() + 20, "a b c d e f");
  v1::EmbedRequest larger = TextsOf(texts);
  larger.mutable_options()->set_partial_results(true);
  answer = Embed(larger);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  int refused = 0;
  for (const v1::EmbedResult& result : answer.embed.results()) {
    if (!result.has_error()) continue;
    ++refused;
    EXPECT_EQ(result.error().code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(result.error().message(), HasSubstr("(--max-queue-tokens): split the call"));
  }
  EXPECT_EQ(refused, 1);
  AwaitWaiting(0);
  // At least 2 tokens each.
  answer = Embed(TextsOf(std::vector<std::string>(51, "lion river")));
  EXPECT_EQ(answer.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("--max-queue-tokens"));
  AwaitWaiting(0);
}

TEST_F(RpcTextLoadTest, ALargeTextGetsThroughBesideASmallOneThatWaits) {
  PuppetEngine* engine = ServeTexts({.max_input_tokens = 100, .max_queue_tokens = 100});
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(TokensOf({1}));
  engine->AwaitEntered(1);
  calls.Start(TextsOf({"lion"}));
  AwaitWaiting(3);
  // By its bytes it could have all the tokens that the queue holds.
  calls.Start(TextsOf({"lion" + std::string(350, ' ') + "river"}));
  AwaitWaiting(3 + 4);
  engine->Release();
  calls.AwaitAll();
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_TRUE(calls.status(i).ok()) << calls.status(i).error_message();
  AwaitWaiting(0);
}

TEST_F(RpcTextLoadTest, ASmallTextGetsThroughBesideALargeOneThatWaits) {
  PuppetEngine* engine = ServeTexts({.max_input_tokens = 100, .max_queue_tokens = 100});
  HoldTokenizing();
  InFlight calls(stub_.get());
  calls.Start(TextsOf({std::string(100, ' ') + "river"}));
  AwaitWaiting(26 + 37);  // a token for four bytes, and half of what that leaves
  EXPECT_TRUE(Embed(TokensOf({1, 2, 3})).status.ok());
  calls.Start(TextsOf({"lion"}));
  AwaitWaiting(63 + 6);
  ReleaseTokenizing();
  calls.AwaitAll();
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_TRUE(calls.status(i).ok()) << calls.status(i).error_message();
  EXPECT_EQ(engine->inputs(), 3);
}

TEST_F(RpcTextLoadTest, ATextWithMoreTokensThanUsualTakesMoreRoomThen) {
  PuppetEngine* engine = ServeTexts({.max_input_tokens = 100, .max_queue_tokens = 100});
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(TokensOf({1}));
  engine->AwaitEntered(1);
  HoldTokenizing();
  calls.Start(TextsOf({std::string(90, '.')}));
  AwaitWaiting(22 + 39);
  ReleaseTokenizing();
  AwaitWaiting(92);
  engine->Release();
  calls.AwaitAll();
  EXPECT_TRUE(calls.status(1).ok()) << calls.status(1).error_message();
  EXPECT_EQ(calls.response(1).results(0).tokens(), 92u);
}

TEST_F(RpcTextLoadTest, IsRefusedWithPushbackIfThatRoomIsTaken) {
  PuppetEngine* engine = ServeTexts({.max_input_tokens = 100, .max_queue_tokens = 100});
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(TokensOf({1}));
  engine->AwaitEntered(1);
  HoldTokenizing();
  Answer refused;
  std::thread caller([&] { refused = Embed(TextsOf({std::string(90, '.')})); });
  AwaitWaiting(61);
  calls.Start(TokensOf(std::vector<int64_t>(39, 5)));
  AwaitWaiting(100);
  ReleaseTokenizing();
  caller.join();
  EXPECT_EQ(refused.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("the queue is full: 100 of 100 tokens wait"));
  EXPECT_EQ(refused.trailers.count("grpc-retry-pushback-ms"), 1u);
  AwaitWaiting(39);
  engine->Release();
  calls.AwaitAll();
  EXPECT_TRUE(calls.status(1).ok()) << calls.status(1).error_message();
}

TEST_F(RpcTextLoadTest, WhileTooMuchTextWaitsCallsAreRefusedWithPushback) {
  ServeTexts();
  HoldTokenizing();
  ASSERT_TRUE(tokenize_pool_.Submit({{.work = int64_t{1} << 40, .run = [](const absl::Status&) {}}}, 0).ok());
  const Answer refused = Embed(TextsOf({"the lion"}));
  EXPECT_EQ(refused.status.error_code(), grpc::RESOURCE_EXHAUSTED) << refused.status.error_message();
  EXPECT_THAT(refused.status.error_message(), HasSubstr("too many texts wait"));
  EXPECT_EQ(refused.trailers.count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(Tokenize(TextsOf<v1::TokenizeRequest>({"a"})).status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(models()[0]->waiting_tokens(), 0);
  EXPECT_TRUE(Embed(TokensOf({1})).status.ok()) << "token ids need no tokenizing";
}

TEST_F(RpcTextLoadTest, AProbesTextComesBeforeTheRestOfHugeOnes) {
  ServeTexts({.max_input_tokens = 4, .truncation = TextTruncation::kEnd});
  HoldTokenizing();
  InFlight calls(stub_.get());
  for (int i = 0; i < 4; ++i) calls.Start(TextsOf({std::string(10 << 20, 'x'), std::string(1 << 20, '.')}));
  while (tokenize_pool_.waiting_work() < 4 * (11 << 20)) std::this_thread::yield();
  calls.Start(TextsOf({"the lion"}));
  while (tokenize_pool_.waiting_work() <= 4 * (11 << 20)) std::this_thread::yield();
  ReleaseTokenizing();
  calls.AwaitAll();
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_TRUE(calls.status(i).ok()) << calls.status(i).error_message();
  EXPECT_LT(calls.response(4).timing().queue_ns(), calls.response(3).timing().queue_ns());
}

TEST_F(RpcTextLoadTest, ACancelledCallsTextsAreNotTokenized) {
  PuppetEngine* engine = ServeTexts();
  HoldTokenizing();
  InFlight calls(stub_.get());
  calls.Start(TextsOf({"the", "lion", "sea"}));
  AwaitWaiting(5 + 6 + 5);
  calls.Cancel(0);
  calls.AwaitAll();
  EXPECT_EQ(calls.status(0).error_code(), grpc::CANCELLED);
  AwaitDropped(3);
  AwaitWaiting(0);
  ReleaseTokenizing();
  EXPECT_EQ(models()[0]->dropped_inputs(), 3);
  EXPECT_EQ(engine->inputs(), 0);
}

TEST_F(RpcTextLoadTest, DrainingFinishesTheTextsThatWait) {
  ServeTexts();
  HoldTokenizing();
  InFlight calls(stub_.get());
  calls.Start(TextsOf({"the lion"}));
  AwaitWaiting(10);
  registry_.Drain();
  ReleaseTokenizing();
  calls.AwaitAll();
  EXPECT_TRUE(calls.status(0).ok()) << calls.status(0).error_message();
}

TEST_F(RpcTextLoadTest, TokenizingCallsKeepTheirModel) {
  ServeTexts();
  HoldTokenizing();
  std::thread caller([this] {
    const Answer answer = Tokenize(TextsOf<v1::TokenizeRequest>({"the lion", "a"}));
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  });
  AwaitWaiting(2);
  registry_.Drain();
  EXPECT_FALSE(registry_.WaitEmpty(clock_.NowNs()));
  ReleaseTokenizing();
  caller.join();
}

TEST_F(RpcTextLoadTest, StreamsOfTextsFailOneByOne) {
  ServeTexts();
  Stream stream(stub_.get());
  const std::vector<std::string> texts = {"the lion", "", "the queen", "river"};
  for (const std::string& text : texts) ASSERT_TRUE(stream.Write(TextsOf({text})));
  std::map<uint64_t, v1::EmbedResponse> responses;
  for (size_t i = 0; i < texts.size(); ++i) {
    const v1::EmbedResponse response = stream.Read();
    responses[response.sequence()] = response;
  }
  EXPECT_TRUE(stream.End().ok());
  EXPECT_EQ(responses[0].results(0).tokens(), 4u);
  EXPECT_EQ(responses[1].error().code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(responses[1].error().message(), StartsWith("input 0: "));
  EXPECT_EQ(responses[2].error().code(), grpc::INTERNAL);
  EXPECT_EQ(responses[3].results(0).tokens(), 3u);
}

TEST_F(RpcTextLoadTest, TokenIdsAreCountedAsTheyAreInMemory) {
  // 100 ids are 100 bytes on the wire and 12 each in memory.
  server_->Shutdown(0);
  Start({.max_inflight_bytes = 1400});
  PuppetEngine* engine = ServeTexts();
  engine->Hold();
  InFlight calls(stub_.get());
  const v1::EmbedRequest request = TokensOf(std::vector<int64_t>(100, 5));
  EXPECT_LT(request.ByteSizeLong(), 120u);
  calls.Start(request);
  engine->AwaitEntered(1);
  EXPECT_EQ(Embed(TokensOf({1})).status.error_code(), grpc::RESOURCE_EXHAUSTED);
  engine->Release();
  calls.AwaitAll();
  EXPECT_TRUE(calls.status(0).ok()) << calls.status(0).error_message();
}

}  // namespace
}  // namespace lion
