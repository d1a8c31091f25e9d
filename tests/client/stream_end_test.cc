// How streams end, and what becomes of the requests that are then unanswered.
#include <gmock/gmock.h>

#include <thread>

#include "tests/client/stream_fixture.h"

namespace lion {
namespace {

using ::lion::testing::AnswerTo;
using ::lion::testing::ClassifyServerStream;
using ::lion::testing::Counter;
using ::lion::testing::RequestNamed;
using ::lion::testing::StreamTest;
using std::chrono::milliseconds;

const absl::Status kCancelled = absl::CancelledError("the stream was cancelled");

// Reads `count` requests and answers nothing.
void ReadAll(ClassifyServerStream& stream, int count) {
  v1::ClassifyRequest request;
  for (int i = 0; i < count; ++i) EXPECT_TRUE(stream.Read(&request));
}

// Reads until the client ends, or goes away.
grpc::Status NeverAnswer(ClassifyServerStream& stream, Counter& received) {
  v1::ClassifyRequest request;
  while (stream.Read(&request)) received.Add();
  return grpc::Status::OK;
}

TEST_F(StreamTest, FinishWithoutRequestsIsOk) {
  Counter received;
  handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
    return NeverAnswer(stream, received);
  };
  Open();
  EXPECT_EQ(stream_->Finish(), absl::OkStatus());
  EXPECT_TRUE(stream_->HasEnded());
  EXPECT_EQ(stream_->Finish(), absl::OkStatus());
}

TEST_F(StreamTest, FinishWaitsForTheAnswersAndEndsTheTaking) {
  Counter half_closed, go;
  handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
    v1::ClassifyRequest request, none;
    EXPECT_TRUE(stream.Read(&request));
    EXPECT_FALSE(stream.Read(&none));
    half_closed.Add();
    go.WaitFor(1);
    stream.Write(AnswerTo(request, 0));
    return grpc::Status::OK;
  };
  Open({.max_in_flight = 1});
  Start("a");
  std::thread blocked([this] { Start("no room"); });
  Counter finished;
  std::thread finisher([&] {
    EXPECT_EQ(stream_->Finish(), absl::OkStatus());
    finished.Add();
  });
  half_closed.WaitFor(1);
  blocked.join();
  Start("late");
  EXPECT_FALSE(finished.WaitFor(1, milliseconds(20)));
  go.Add();
  finisher.join();
  EXPECT_EQ(StatusOf("a"), absl::OkStatus());
  for (const char* name : {"no room", "late"}) {
    EXPECT_EQ(StatusOf(name), absl::FailedPreconditionError("the stream takes no request after Finish")) << name;
  }
}

TEST_F(StreamTest, ABrokenStreamEndsEveryUnansweredRequestOnce) {
  handlers_.classify_stream = [](grpc::ServerContext& context, ClassifyServerStream& stream) {
    std::vector<v1::ClassifyRequest> requests(5);
    for (v1::ClassifyRequest& request : requests) EXPECT_TRUE(stream.Read(&request));
    for (const int sequence : {3, 1}) stream.Write(AnswerTo(requests[sequence], sequence));
    context.AddTrailingMetadata("grpc-retry-pushback-ms", "70");
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  };
  Open({.max_in_flight = 5});
  for (const char* name : {"0", "1", "2", "3", "4"}) Start(name);
  // Perhaps there is room for some of these before the end: it is the same for them.
  for (int i = 5; i < 20; ++i) Start(std::to_string(i));
  answered_.WaitFor(20);
  EXPECT_TRUE(stream_->HasEnded());
  Start("late");
  for (const char* name : {"3", "1"}) EXPECT_EQ(StatusOf(name), absl::OkStatus()) << name;
  EXPECT_EQ(stream_->Finish(), StatusOf("0"));
  Start("after Finish");
  for (const char* name : {"0", "2", "4", "5", "12", "19", "late", "after Finish"}) {
    EXPECT_TRUE(absl::IsUnavailable(StatusOf(name))) << StatusOf(name);
    EXPECT_EQ(StatusOf(name).message(), "draining");
    EXPECT_EQ(RetryPushback(StatusOf(name)), milliseconds(70));
  }
}

TEST_F(StreamTest, AServerThatEndsWithOkTooSoonIsUnavailable) {
  handlers_.classify_stream = [](grpc::ServerContext&, ClassifyServerStream& stream) {
    ReadAll(stream, 2);
    return grpc::Status::OK;
  };
  Open();
  Start("a");
  Start("b");
  const absl::Status want = absl::UnavailableError("the server ended the stream with OK and 2 requests unanswered");
  EXPECT_EQ(stream_->Finish(), want);
  EXPECT_EQ(StatusOf("a"), want);
  EXPECT_EQ(StatusOf("b"), want);
}

TEST_F(StreamTest, AStreamThatTheServerHasEndedWithOkTakesNothing) {
  handlers_.classify_stream = [](grpc::ServerContext&, ClassifyServerStream& stream) {
    v1::ClassifyRequest request;
    EXPECT_TRUE(stream.Read(&request));
    stream.Write(AnswerTo(request, 0));
    return grpc::Status::OK;
  };
  Open({.max_in_flight = 1});
  ASSERT_TRUE(stream_->Call(RequestNamed("a")).ok());
  while (!stream_->HasEnded()) std::this_thread::yield();
  const absl::Status want = absl::UnavailableError("the server has ended the stream");
  EXPECT_EQ(stream_->Call(RequestNamed("b")).status(), want);
  EXPECT_EQ(stream_->Finish(), absl::OkStatus());
  EXPECT_EQ(stream_->Call(RequestNamed("c")).status(), want);
}

TEST_F(StreamTest, CancelEndsWhatIsInFlightAndWhatWaitsForRoom) {
  Counter received;
  handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
    return NeverAnswer(stream, received);
  };
  Open({.max_in_flight = 3});
  for (const char* name : {"a", "b", "c"}) Start(name);
  std::thread blocked([this] { Start("no room"); });
  received.WaitFor(3);
  stream_->Cancel();
  blocked.join();
  EXPECT_EQ(stream_->Finish(), kCancelled);
  for (const char* name : {"a", "b", "c", "no room"}) EXPECT_EQ(StatusOf(name), kCancelled) << name;
  stream_->Cancel();
  EXPECT_EQ(stream_->Finish(), kCancelled);
}

TEST_F(StreamTest, CancelMeetsStartsFromManyThreads) {
  handlers_.classify_stream = [](grpc::ServerContext&, ClassifyServerStream& stream) {
    v1::ClassifyRequest request;
    for (uint64_t sequence = 0; stream.Read(&request); ++sequence) stream.Write(AnswerTo(request, sequence));
    return grpc::Status::OK;
  };
  for (int round = 0; round < 20; ++round) {
    Open({.max_in_flight = 4});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this, t] {
        for (int i = 0; i < 50; ++i) Start(std::to_string(t) + "/" + std::to_string(i));
      });
    }
    answered_.WaitFor(10 * round);
    stream_->Cancel();
    for (std::thread& thread : threads) thread.join();
    stream_.reset();
    EXPECT_EQ(answers_.size(), 200u);
    for (const std::string& name : order_) {
      const absl::Status status = StatusOf(name);
      EXPECT_TRUE(status.ok() || status == kCancelled) << name << ": " << status;
    }
    answers_.clear();
    order_.clear();
    answered_.Reset();
  }
}

TEST_F(StreamTest, TheDestructorDoesNotWaitForAServerThatNeverAnswers) {
  Counter received;
  handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
    return NeverAnswer(stream, received);
  };
  Open();
  for (const char* name : {"a", "b"}) Start(name);
  received.WaitFor(2);
  stream_.reset();
  for (const char* name : {"a", "b"}) EXPECT_EQ(StatusOf(name), kCancelled) << name;
}

TEST_F(StreamTest, TheDestructorDoesNotWaitForAServerThatDoesNotRead) {
  handlers_.classify_stream = [](grpc::ServerContext& context, ClassifyServerStream&) {
    while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  Open();
  v1::ClassifyRequest request = RequestNamed("large");
  request.add_inputs()->set_image(std::string(20 << 20, 'x'));  // beyond what gRPC takes without a reader
  Start(request);
  Start("b");
  stream_.reset();
  EXPECT_EQ(StatusOf("large"), kCancelled);
  EXPECT_EQ(StatusOf("b"), kCancelled);
}

TEST_F(StreamTest, AnAnswerToNoRequestOrASecondOneEndsTheStream) {
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{2}, uint64_t{1} << 63}) {
    Counter cancelled;
    handlers_.classify_stream = [&](grpc::ServerContext&, ClassifyServerStream& stream) {
      v1::ClassifyRequest first, second;
      EXPECT_TRUE(stream.Read(&first));
      EXPECT_TRUE(stream.Read(&second));
      stream.Write(AnswerTo(first, 0));
      stream.Write(AnswerTo(second, wrong));
      EXPECT_FALSE(stream.Read(&first));
      cancelled.Add();
      return grpc::Status::OK;
    };
    Open();
    Start("a");
    Start("b");
    const absl::Status want = absl::InternalError("the server sent an answer to request " + std::to_string(wrong) +
                                                  ", which is not waiting for one");
    answered_.WaitFor(2);
    EXPECT_EQ(StatusOf("a"), absl::OkStatus());
    EXPECT_EQ(StatusOf("b"), want);
    EXPECT_EQ(stream_->Finish(), want);
    cancelled.WaitFor(1);
    stream_.reset();
    answers_.clear();
    answered_.Reset();
  }
}

TEST_F(StreamTest, AnAnswerToARequestThatIsNotSentYetEndsTheStream) {
  Counter go;
  handlers_.classify_stream = [&](grpc::ServerContext& context, ClassifyServerStream& stream) {
    go.WaitFor(1);
    stream.Write(AnswerTo(RequestNamed("b"), 1));
    while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  Open();
  v1::ClassifyRequest request = RequestNamed("large");
  request.add_inputs()->set_image(std::string(20 << 20, 'x'));  // holds up what follows while the server does not read
  Start(request);
  Start("b");
  go.Add();
  answered_.WaitFor(2);
  EXPECT_TRUE(absl::IsInternal(StatusOf("large"))) << StatusOf("large");
  EXPECT_TRUE(absl::IsInternal(StatusOf("b"))) << StatusOf("b");
}

TEST_F(StreamTest, NoServerAndAServerWithoutStreamsAreErrorsOfTheRequests) {
  Open();
  EXPECT_TRUE(absl::IsUnimplemented(stream_->Call(RequestNamed("a")).status()));
  server_.reset();
  stream_ = *client_->OpenClassifyStream();
  EXPECT_TRUE(absl::IsUnavailable(stream_->Call(RequestNamed("b")).status()));
  EXPECT_TRUE(absl::IsUnavailable(stream_->Finish()));
}

TEST_F(StreamTest, AnAnswerOverTheByteLimitEndsTheStreamWithoutPushback) {
  handlers_.classify_stream = [](grpc::ServerContext&, ClassifyServerStream& stream) {
    std::vector<v1::ClassifyRequest> requests(2);
    for (v1::ClassifyRequest& request : requests) EXPECT_TRUE(stream.Read(&request));
    v1::ClassifyResponse large = AnswerTo(requests[1], 1);
    large.set_model(std::string(2000, 'x'));
    stream.Write(large);
    stream.Read(&requests[0]);
    return grpc::Status::OK;
  };
  Open({}, {.max_message_bytes = 1000});
  Start("a");
  Start("b");
  answered_.WaitFor(2);
  for (const char* name : {"a", "b"}) {
    EXPECT_TRUE(absl::IsResourceExhausted(StatusOf(name))) << StatusOf(name);
    EXPECT_EQ(RetryPushback(StatusOf(name)), std::nullopt);
  }
}

}  // namespace
}  // namespace lion
