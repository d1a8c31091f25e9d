// Streams that go well: order, limits, threads, and errors of single requests. stream_end_test.cc has the rest.
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "tests/client/stream_fixture.h"

namespace lion {
namespace {

using ::lion::testing::AnswerTo;
using ::lion::testing::ClassifyServerStream;
using ::lion::testing::Counter;
using ::lion::testing::EmbedServerStream;
using ::lion::testing::RequestNamed;
using ::lion::testing::StreamTest;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

// Answers each request as soon as it is read.
grpc::Status Echo(grpc::ServerContext&, ClassifyServerStream& stream) {
  v1::ClassifyRequest request;
  for (uint64_t sequence = 0; stream.Read(&request); ++sequence) stream.Write(AnswerTo(request, sequence));
  return grpc::Status::OK;
}

TEST_F(StreamTest, OptionsAreChecked) {
  Open();
  EXPECT_EQ(client_->OpenClassifyStream({.max_in_flight = 0}).status(),
            absl::InvalidArgumentError("max_in_flight is 0; expected 1 or more"));
  EXPECT_EQ(client_->OpenEmbedStream({.max_in_flight_bytes = 0}).status(),
            absl::InvalidArgumentError("max_in_flight_bytes is 0; expected 1 or more"));
}

TEST_F(StreamTest, AnswersInAnyOrderFindTheirRequests) {
  handlers_.classify_stream = [](grpc::ServerContext&, ClassifyServerStream& stream) {
    std::vector<v1::ClassifyRequest> requests(3);
    for (v1::ClassifyRequest& request : requests) EXPECT_TRUE(stream.Read(&request));
    for (const int sequence : {2, 0, 1}) stream.Write(AnswerTo(requests[sequence], sequence));
    return grpc::Status::OK;
  };
  Open();
  for (const char* name : {"a", "b", "c"}) Start(name);
  EXPECT_EQ(stream_->Finish(), absl::OkStatus());
  EXPECT_THAT(order_, ElementsAre("c", "a", "b"));
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(StatusOf(name), absl::OkStatus()) << name;
}

TEST_F(StreamTest, CallWaitsForItsAnswer) {
  handlers_.classify_stream = Echo;
  Open();
  for (const char* name : {"a", "b"}) {
    const auto response = stream_->Call(RequestNamed(name));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->request_id(), name);
  }
  EXPECT_FALSE(stream_->HasEnded());
}

TEST_F(StreamTest, EmbeddingsComeLikewise) {
  handlers_.embed_stream = [](grpc::ServerContext&, EmbedServerStream& stream) {
    v1::EmbedRequest request;
    for (uint64_t sequence = 0; stream.Read(&request); ++sequence) {
      v1::EmbedResponse response;
      response.set_sequence(sequence);
      response.add_results()->mutable_embedding()->set_data(request.inputs(0).image());
      stream.Write(response);
    }
    return grpc::Status::OK;
  };
  Open();
  const auto stream = client_->OpenEmbedStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  v1::EmbedRequest request;
  request.add_inputs()->set_image("pixels");
  const auto response = (*stream)->Call(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->results(0).embedding().data(), "pixels");
  EXPECT_EQ((*stream)->Finish(), absl::OkStatus());
}

TEST_F(StreamTest, AnErrorOfOneRequestIsItsOwn) {
  handlers_.classify_stream = [](grpc::ServerContext&, ClassifyServerStream& stream) {
    v1::ClassifyRequest request;
    for (uint64_t sequence = 0; stream.Read(&request); ++sequence) {
      v1::ClassifyResponse response = AnswerTo(request, sequence);
      if (request.request_id() == "short") response.clear_results();
      if (request.request_id() == "bad" || request.request_id() == "full" || request.request_id() == "zero") {
        const int code = request.request_id() == "bad" ? 3 : request.request_id() == "full" ? 8 : 0;
        response.clear_results();
        response.mutable_error()->set_code(code);
        response.mutable_error()->set_message("refused");
      }
      stream.Write(response);
    }
    return grpc::Status::OK;
  };
  Open();
  for (const char* name : {"bad", "full", "zero", "short", "good"}) Start(name);
  EXPECT_EQ(stream_->Finish(), absl::OkStatus());
  EXPECT_EQ(StatusOf("bad"), absl::InvalidArgumentError("refused"));
  EXPECT_EQ(RetryPushback(StatusOf("bad")), std::nullopt);
  EXPECT_TRUE(absl::IsResourceExhausted(StatusOf("full")));
  EXPECT_EQ(StatusOf("full").message(), "refused");
  EXPECT_EQ(RetryPushback(StatusOf("full")), milliseconds(100));
  EXPECT_EQ(StatusOf("zero"), absl::InternalError("the server sent an error with code 0 (OK)"));
  EXPECT_EQ(StatusOf("short"), absl::InternalError("the server sent 0 results for 1 inputs"));
  EXPECT_EQ(StatusOf("good"), absl::OkStatus());
}

TEST_F(StreamTest, StartBlocksWhileAsMuchAsAllowedIsUnanswered) {
  v1::ClassifyRequest large = RequestNamed("large");
  large.add_inputs()->set_image(std::string(5000, 'x'));
  const auto small_bytes = static_cast<int64_t>(RequestNamed("1").ByteSizeLong());
  const StreamOptions cases[] = {{.max_in_flight = 3}, {.max_in_flight_bytes = 2 * small_bytes + 1}};
  for (const StreamOptions& options : cases) {
    Counter received, go;
    handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
      std::vector<v1::ClassifyRequest> requests(4);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(stream.Read(&requests[i]));
      received.Add();
      go.WaitFor(1);
      stream.Write(AnswerTo(requests[2], 2));  // which makes room enough
      EXPECT_TRUE(stream.Read(&requests[3]));
      for (const int sequence : {0, 1, 3}) stream.Write(AnswerTo(requests[sequence], sequence));
      return grpc::Status::OK;
    };
    Open(options);
    Start("1");
    Start("2");
    Start(large);
    Counter started;
    std::thread fourth([&] {
      Start("4");
      started.Add();
    });
    received.WaitFor(1);
    EXPECT_FALSE(started.WaitFor(1, milliseconds(100)));
    go.Add();
    started.WaitFor(1);
    fourth.join();
    EXPECT_EQ(stream_->Finish(), absl::OkStatus());
    EXPECT_THAT(order_, ElementsAre("large", "1", "2", "4"));
    order_.clear();
    stream_.reset();
  }
}

// Answers the latest first, on another thread than the one that reads, and waits for `at_least` before it answers one.
grpc::Status AnswerTheLatest(ClassifyServerStream& stream, size_t at_least, size_t& most) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<v1::ClassifyResponse> unanswered;
  bool all_read = false;
  std::thread writer([&] {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return unanswered.size() >= at_least || all_read; });
      if (unanswered.empty()) return;
      const v1::ClassifyResponse response = std::move(unanswered.back());
      unanswered.pop_back();  // before the client can know
      lock.unlock();
      stream.Write(response);
      lock.lock();
    }
  });
  v1::ClassifyRequest request;
  for (uint64_t sequence = 0; stream.Read(&request); ++sequence) {
    const std::lock_guard lock(mutex);
    unanswered.push_back(AnswerTo(request, sequence));
    most = std::max(most, unanswered.size());
    changed.notify_all();
  }
  {
    const std::lock_guard lock(mutex);
    all_read = true;
    changed.notify_all();
  }
  writer.join();
  return grpc::Status::OK;
}

TEST_F(StreamTest, NeverMoreThanTheLimitIsWithTheServer) {
  size_t most = 0;
  handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
    return AnswerTheLatest(stream, 4, most);
  };
  Open({.max_in_flight = 5});
  for (int i = 0; i < 300; ++i) Start(std::to_string(i));
  EXPECT_EQ(stream_->Finish(), absl::OkStatus());
  for (int i = 0; i < 300; ++i) EXPECT_EQ(StatusOf(std::to_string(i)), absl::OkStatus()) << i;
  EXPECT_GE(most, 4u);
  EXPECT_LE(most, 5u);
}

TEST_F(StreamTest, ManyThreadsShareAStream) {
  size_t most = 0;
  handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
    return AnswerTheLatest(stream, 1, most);
  };
  Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string name = std::to_string(t) + "/" + std::to_string(i);
        if (i % 5 > 0) {
          Start(name);
          continue;
        }
        const auto response = stream_->Call(RequestNamed(name));
        ASSERT_TRUE(response.ok()) << response.status();
        EXPECT_EQ(response->request_id(), name);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stream_->Finish(), absl::OkStatus());
  EXPECT_EQ(order_.size(), 8u * 400u);
  for (const std::string& name : order_) EXPECT_EQ(StatusOf(name), absl::OkStatus()) << name;
}

}  // namespace
}  // namespace lion
