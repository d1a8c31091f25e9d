// Models that come, are replaced and go while calls are inside.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "server/readiness.h"
#include "tests/server/rpc_stream_fixture.h"

namespace lion {
namespace {

using ::testing::HasSubstr;
using Health = grpc::health::v1::HealthCheckResponse;

// Says when it is destroyed.
class MortalPuppet : public PuppetEngine {
 public:
  explicit MortalPuppet(std::atomic<int>* deaths) : deaths_(deaths) {}
  ~MortalPuppet() override { ++*deaths_; }

 private:
  std::atomic<int>* const deaths_;
};

class RpcReloadTest : public RpcStreamTest {
 protected:
  void SetUp() override {
    RpcServerOptions options;
    options.max_stream_bytes = int64_t{1} << 20;
    Start(options);
    readiness_ = std::make_unique<Readiness>(&registry_, server_.get());
    first_ = Add();
    readiness_->Serve(std::move(models_));
  }
  void TearDown() override {
    // Those that are gone cannot be released.
    engines_.clear();
    RpcStreamTest::TearDown();
  }
  // The next model named "m" or otherwise.
  PuppetEngine* Add(const std::string& name = "m") {
    return AddModel(name, {}, std::make_unique<MortalPuppet>(&deaths_));
  }
  PuppetEngine* Replace(const std::string& name = "m") {
    PuppetEngine* engine = Add(name);
    std::unique_ptr<ModelService> model = std::move(models_.back());
    models_.clear();
    EXPECT_TRUE(readiness_->Put(std::move(model)));
    return engine;
  }
  void AwaitDeaths(int count) {
    while (deaths_ < count) std::this_thread::yield();
  }
  grpc::Status GetModel(const std::string& name) {
    grpc::ClientContext context;
    v1::GetModelRequest request;
    request.set_model(name);
    v1::Model response;
    return stub_->GetModel(&context, request, &response);
  }

  std::atomic<int> deaths_ = 0;
  PuppetEngine* first_ = nullptr;
  std::unique_ptr<Readiness> readiness_;
};

TEST_F(RpcReloadTest, CallsFinishOnTheModelThatTheyBeganOnWhichThenIsFreed) {
  first_->Hold();
  InFlight calls(stub_.get());
  calls.Start(EmbedOf({1, 2}));
  first_->AwaitEntered(1);
  PuppetEngine* second = Replace();
  second->Hold();
  calls.Start(EmbedOf({3}));
  EXPECT_EQ(second->inputs(), 0);
  EXPECT_EQ(deaths_, 0);
  first_->Release();
  calls.AwaitDone(1);
  EXPECT_TRUE(calls.status(0).ok()) << calls.status(0).error_message();
  EXPECT_EQ(calls.response(0).results(1).embedding().values(0), 2);
  AwaitDeaths(1);
  second->Release();
  calls.AwaitAll();
  EXPECT_EQ(calls.response(1).results(0).embedding().values(0), 3);
  EXPECT_EQ(second->inputs(), 1);
}

TEST_F(RpcReloadTest, RequestsOfOneStreamGoOnWithTheNewModel) {
  Stream stream(stub_.get());
  first_->Hold();
  stream.Write(EmbedOf({1}));
  first_->AwaitEntered(1);
  PuppetEngine* second = Replace();
  stream.Write(EmbedOf({2}));
  while (models()[0]->waiting_tokens() == 0) std::this_thread::yield();
  first_->Release();
  for (int i = 0; i < 2; ++i) {
    const v1::EmbedResponse response = stream.Read();
    EXPECT_FALSE(response.has_error()) << response.error().message();
    EXPECT_EQ(response.results(0).embedding().values(0), static_cast<float>(response.sequence() + 1));
  }
  EXPECT_EQ(second->inputs(), 1);
  AwaitDeaths(1);
  EXPECT_TRUE(stream.End().ok());
}

// Whatever waits to be read has been answered: it needs no model.
TEST_F(RpcReloadTest, AReaderWhoDoesNotReadDoesNotKeepTheModel) {
  // 1,025 rows of 4 floats each: more than gRPC lets travel and the stream may hold.
  v1::EmbedRequest request = EmbedOf({1}, /*side=*/256);
  request.set_pooling(v1::POOLING_NONE);
  Stream stream(stub_.get());
  std::thread writer([&] {
    for (int i = 0; i < 600; ++i) stream.Write(request);
  });
  int64_t before = -1;
  while (first_->inputs() != before) {
    before = first_->inputs();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  ASSERT_LT(before, 600) << "the stream was read although nobody takes its responses";
  Replace();
  AwaitDeaths(1);
  stream.context.TryCancel();
  writer.join();
}

TEST_F(RpcReloadTest, ARemovedModelIsDrainedAndNotFoundAnyMore) {
  Replace("other");
  first_->Hold();
  InFlight calls(stub_.get());
  v1::EmbedRequest request = EmbedOf({5});
  request.set_model("m");
  calls.Start(request);
  first_->AwaitEntered(1);
  EXPECT_EQ(Health("m"), Health::SERVING);
  readiness_->Remove("m");
  EXPECT_EQ(Health("m"), Health::NOT_SERVING);
  EXPECT_EQ(Health("other"), Health::SERVING);
  EXPECT_EQ(Health(""), Health::SERVING);
  const Answer refused = Embed(request);
  EXPECT_EQ(refused.status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(refused.status.error_message(), "no model of the name 'm'; there is: 'other'");
  EXPECT_EQ(GetModel("m").error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(deaths_, 0);
  first_->Release();
  calls.AwaitAll();
  EXPECT_TRUE(calls.status(0).ok()) << calls.status(0).error_message();
  AwaitDeaths(1);
  EXPECT_TRUE(Embed(EmbedOf({1})).status.ok()) << "the only one that is left needs no name";
  readiness_->Remove("other");
  EXPECT_THAT(Embed(EmbedOf({1})).status.error_message(), HasSubstr("no models"));
  Replace("m");
  EXPECT_EQ(Health("m"), Health::SERVING);
  EXPECT_TRUE(Embed(request).status.ok());
}

TEST_F(RpcReloadTest, NothingIsPutOnceTheServerStops) {
  readiness_->Stop();
  Add();
  EXPECT_FALSE(readiness_->Put(std::move(models_.back())));
  models_.clear();
  AwaitDeaths(1);
  EXPECT_TRUE(Embed(EmbedOf({1})).status.ok()) << "calls are let in until the draining begins";
  EXPECT_EQ(first_->inputs(), 1);
}

// Every kind of call, and everything that looks at models, while they are replaced without a pause.
TEST_F(RpcReloadTest, NothingFailsWhileModelsAreReplaced) {
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; !stop; ++i) {
        const auto value = static_cast<float>(caller * 1000 + i % 100);
        const Answer answer = Embed(EmbedOf({value, value + 1}));
        ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
        ASSERT_EQ(answer.embed.results(1).embedding().values(0), value + 1);
        ASSERT_TRUE(GetModel("m").ok());
        ++answered;
      }
    });
  }
  std::thread streamer([&] {
    Stream stream(stub_.get());
    while (!stop) {
      stream.Write(EmbedOf({7}));
      const v1::EmbedResponse response = stream.Read();
      ASSERT_FALSE(response.has_error()) << response.error().message();
      ASSERT_EQ(response.results(0).embedding().values(0), 7);
    }
    EXPECT_TRUE(stream.End().ok());
  });
  int replaced = 0;
  for (; replaced < 50 || answered < 200; ++replaced) {
    Replace();
    const int seen = answered;
    while (answered < seen + 2) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  streamer.join();
  AwaitDeaths(replaced);
  EXPECT_EQ(deaths_, replaced) << "the last one serves";
}

}  // namespace
}  // namespace lion
