// Streams under load: readers who do not read, and everything at once.
#include <gmock/gmock.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/server/rpc_stream_fixture.h"

namespace lion {
namespace {

class SlowReaderTest : public RpcStreamTest {
 protected:
  void SetUp() override {
    RpcServerOptions options;
    options.max_inflight_bytes = int64_t{32} << 20;
    options.max_stream_bytes = int64_t{1} << 20;
    Start(options);
  }
};

TEST_F(SlowReaderTest, HoldsBackItsOwnRequestsAndNobodyElses) {
  PuppetEngine* engine = ServeOne();
  constexpr int kRequests = 600;
  // 1,025 rows of 4 floats each: 16 KiB a response, 10 MB in all: more than the 4 MiB that gRPC lets travel to a reader
  // who does not read, and the stream's 1 MiB.
  v1::EmbedRequest request;
  v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
  pixels->set_height(256);
  pixels->set_width(256);
  pixels->set_type(v1::PixelTensor::TYPE_UINT8);
  pixels->set_data(std::string(size_t{3} * 256 * 256, '\3'));
  request.set_pooling(v1::POOLING_NONE);
  Stream stream(stub_.get());
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) stream.Write(request);
    stream.rpc->WritesDone();
  });
  engine->AwaitEntered(1);
  for (int i = 0; i < 200; ++i) {
    const Answer other = Embed(EmbedOf({1}));
    ASSERT_TRUE(other.status.ok()) << other.status.error_message();
  }
  EXPECT_LT(engine->inputs() - 200, kRequests - 100) << "the stream was read although nobody takes its responses";
  std::set<uint64_t> seen;
  v1::EmbedResponse response;
  while (stream.rpc->Read(&response)) {
    EXPECT_FALSE(response.has_error()) << response.error().message();
    EXPECT_TRUE(seen.insert(response.sequence()).second);
  }
  EXPECT_EQ(seen.size(), size_t{kRequests});
  writer.join();
  stream.ended = true;
  EXPECT_TRUE(stream.rpc->Finish().ok());
}

// What a client may do to a stream, in a mix that its seed decides.
class RandomClient {
 public:
  RandomClient(v1::LionService::Stub* stub, uint32_t seed) : stub_(stub), random_(seed) {}

  void Run(int requests) {
    while (requests > 0) requests -= RunStream(std::min(requests, Pick(1, 60)));
  }
  int answered = 0;
  int failed = 0;     // with an error in their response
  int cancelled = 0;  // by the end of their stream

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  enum Kind { kGood, kEmpty, kUnknownModel, kTooSmall, kNotFinite, kHasty };

  int RunStream(int requests) {
    grpc::ClientContext context;
    const auto stream = stub_->EmbedStream(&context);
    const bool cancels = Pick(0, 3) == 0;
    std::vector<Kind> kinds;
    std::vector<float> values;
    for (int i = 0; i < requests; ++i) {
      const int choice = Pick(0, 9);
      kinds.push_back(choice < 5 ? kGood : static_cast<Kind>(choice - 4));
      values.push_back(static_cast<float>(Pick(1, 1000)));
    }
    std::thread writer([&] {
      std::mt19937 random(static_cast<uint32_t>(requests));
      for (int i = 0; i < requests; ++i) {
        if (cancels && i == requests / 2) context.TryCancel();
        if (!stream->Write(Make(kinds[static_cast<size_t>(i)], values[static_cast<size_t>(i)], random))) break;
      }
      stream->WritesDone();
    });
    std::vector<int> endings(static_cast<size_t>(requests));
    v1::EmbedResponse response;
    while (stream->Read(&response)) {
      const size_t i = response.sequence();
      EXPECT_LT(i, endings.size());
      if (i >= endings.size()) continue;
      ++endings[i];
      Check(kinds[i], values[i], response);
    }
    writer.join();
    const grpc::Status status = stream->Finish();
    int unanswered = 0;
    for (const int count : endings) {
      EXPECT_LE(count, 1);
      unanswered += count == 0;
    }
    if (cancels) {
      EXPECT_EQ(status.error_code(), grpc::CANCELLED);
      cancelled += unanswered;
    } else {
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(unanswered, 0);
    }
    return requests;
  }

  static v1::EmbedRequest Make(Kind kind, float value, std::mt19937& random) {
    v1::EmbedRequest request;
    if (kind == kEmpty) return request;
    const uint32_t side = kind == kTooSmall ? 4 : 8u << std::uniform_int_distribution<int>(0, 3)(random);
    v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
    pixels->set_height(side);
    pixels->set_width(side);
    const std::vector<float> data(size_t{3} * side * side, kind == kNotFinite ? PuppetEngine::kNotFinite : value);
    pixels->set_data(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
    if (kind == kUnknownModel) request.set_model("nobody");
    if (kind == kHasty) request.mutable_options()->set_timeout_ms(1);
    return request;
  }

  void Check(Kind kind, float value, const v1::EmbedResponse& response) {
    response.has_error() ? ++failed : ++answered;
    if (response.error().code() == grpc::RESOURCE_EXHAUSTED) return;  // the others have filled the queue
    switch (kind) {
      case kGood:
        ASSERT_FALSE(response.has_error()) << response.error().message();
        EXPECT_EQ(response.results(0).embedding().values(0), value);
        break;
      case kHasty:
        if (response.has_error()) {
          EXPECT_EQ(response.error().code(), grpc::DEADLINE_EXCEEDED);
        } else {
          EXPECT_EQ(response.results(0).embedding().values(0), value);
        }
        break;
      case kUnknownModel:
        EXPECT_EQ(response.error().code(), grpc::NOT_FOUND);
        break;
      case kNotFinite:
        EXPECT_EQ(response.error().code(), grpc::INTERNAL);
        break;
      default:
        EXPECT_EQ(response.error().code(), grpc::INVALID_ARGUMENT);
    }
  }

  v1::LionService::Stub* const stub_;
  std::mt19937 random_;
};

TEST_F(RpcStreamTest, EveryRequestHasExactlyOneEndingUnderRandomLoad) {
  PuppetEngine* engine = ServeOne({.max_batch_tokens = 64, .max_input_tokens = 80, .max_queue_tokens = 200});
  constexpr int kClients = 8;
  constexpr int kRequests = 250;
  std::vector<RandomClient> clients;
  for (uint32_t i = 0; i < kClients; ++i) clients.emplace_back(stub_.get(), i + 1);
  std::vector<std::thread> threads;
  for (RandomClient& client : clients) threads.emplace_back([&client] { client.Run(kRequests); });
  for (std::thread& thread : threads) thread.join();
  int answered = 0, all = 0;
  for (const RandomClient& client : clients) {
    answered += client.answered;
    all += client.answered + client.failed + client.cancelled;
  }
  EXPECT_EQ(all, kClients * kRequests);
  EXPECT_GT(answered, kClients * kRequests / 4);
  EXPECT_GE(engine->inputs(), answered);
  registry_.Drain();
  EXPECT_TRUE(registry_.WaitEmpty(kNever)) << "something of a stream is still inside";
}

}  // namespace
}  // namespace lion
