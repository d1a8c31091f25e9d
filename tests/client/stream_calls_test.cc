// Single calls of StreamCalls, with a fake server.
#include "client/cli/stream_calls.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <string>

#include "tests/client/stream_fixture.h"

namespace lion {
namespace {

using ::lion::testing::AnswerTo;
using ::lion::testing::ClassifyServerStream;
using ::lion::testing::Counter;
using ::lion::testing::FakeHandlers;
using ::lion::testing::FakeServer;
using ::lion::testing::RequestNamed;
using std::chrono::milliseconds;

using Calls = StreamCalls<v1::ClassifyRequest, v1::ClassifyResponse>;

class StreamCallsTest : public ::testing::Test {
 protected:
  StreamCallsTest() {
    handlers_.classify = [this](grpc::ServerContext&, const v1::ClassifyRequest& request,
                                v1::ClassifyResponse& response) {
      ++unary_calls_;
      response = AnswerTo(request, 0);
      return grpc::Status::OK;
    };
  }

  // Before it opens a stream, `opening` is called.
  std::unique_ptr<Calls> MakeCalls(
      const StreamCallOptions& options, const StreamOptions& stream_options = {},
      const std::function<void()>& opening = [] {}) {
    server_ = std::make_unique<FakeServer>(&handlers_);
    auto client = Client::Create({.address = server_->address()});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    return std::make_unique<Calls>(
        options,
        [this, stream_options, opening] {
          opening();
          return client_->OpenClassifyStream(stream_options);
        },
        [this](const v1::ClassifyRequest& request) { return client_->Classify(request); });
  }

  FakeHandlers handlers_;
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Client> client_;
  std::atomic<int> unary_calls_ = 0;
};

// What is cancelled with it is another call's timeout, and no fault of its own. The stream takes one request at a time,
// so that the second call's own timeout does not begin before the first has given up.
TEST_F(StreamCallsTest, ACallThatSharesALeftStreamIsMadeAgain) {
  std::atomic<int> stream_requests = 0;
  handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
    v1::ClassifyRequest request;
    while (stream.Read(&request)) ++stream_requests;
    return grpc::Status::OK;
  };
  Counter opens, second_begun;
  const auto calls = MakeCalls({.timeout = milliseconds(500), .grace = milliseconds(1)}, {.max_in_flight = 1}, [&] {
    opens.Add();
    second_begun.WaitFor(1);
  });
  auto first = std::async(std::launch::async, [&] { return calls->Call([] { return RequestNamed("first"); }); });
  opens.WaitFor(1);
  auto second = std::async(std::launch::async, [&] {
    return calls->Call([&] {
      second_begun.Add();
      return RequestNamed("second");
    });
  });
  // Either may have been the first on the stream.
  const std::array<absl::Status, 2> statuses = {first.get().status(), second.get().status()};
  const absl::Status left = absl::DeadlineExceededError("no answer within 500 ms");
  EXPECT_TRUE((statuses[0] == left && statuses[1].ok()) || (statuses[1] == left && statuses[0].ok()))
      << statuses[0] << "; " << statuses[1];
  EXPECT_EQ(unary_calls_, 1);
  EXPECT_FALSE(opens.WaitFor(2, milliseconds(0)));
  EXPECT_EQ(stream_requests, 1);
}

TEST_F(StreamCallsTest, AStreamThatTheServerDoesNotEndIsCancelled) {
  Counter left;
  handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
    v1::ClassifyRequest request;
    for (uint64_t sequence = 0; stream.Read(&request); ++sequence) stream.Write(AnswerTo(request, sequence));
    EXPECT_TRUE(left.WaitFor(1, milliseconds(30'000))) << "the client waits for the end";
    return grpc::Status::OK;
  };
  auto calls = MakeCalls({.end_grace = milliseconds(50)});
  const auto response = calls->Call([] { return RequestNamed("one"); });
  EXPECT_TRUE(response.ok()) << response.status();
  calls.reset();
  left.Add();
  server_.reset();
  EXPECT_EQ(unary_calls_, 0);
}

}  // namespace
}  // namespace lion
