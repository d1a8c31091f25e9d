// RunBulk over streams, with a fake server.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "client/cli/bulk.h"
#include "client/cli/grpc_transport.h"
#include "tests/client/stream_fixture.h"
#include "tests/client/temporary_folder.h"

namespace lion {
namespace {

using ::lion::testing::AnswerTo;
using ::lion::testing::ClassifyServerStream;
using ::lion::testing::FakeHandlers;
using ::lion::testing::FakeServer;
using ::lion::testing::TemporaryFolder;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::Ge;

const grpc::Status kTooLarge(grpc::StatusCode::RESOURCE_EXHAUSTED, "Received message larger than max");

class BulkStreamTest : public ::testing::Test {
 protected:
  BulkStreamTest() {
    options_.max_inputs = 4;
    handlers_.classify = [this](grpc::ServerContext&, const v1::ClassifyRequest& request,
                                v1::ClassifyResponse& response) {
      ++unary_calls_;
      EXPECT_EQ(request.options().timeout_ms(), 0u);
      response = AnswerTo(request, 0);
      return unary_ ? unary_(request) : grpc::Status::OK;
    };
    handlers_.classify_stream = [this](grpc::ServerContext&, ClassifyServerStream& stream) {
      const int number = streams_++;
      v1::ClassifyRequest request;
      for (uint64_t sequence = 0; stream.Read(&request); ++sequence) {
        ++stream_requests_;
        EXPECT_EQ(request.options().timeout_ms(), static_cast<uint32_t>(stream_options_.timeout.count()));
        v1::ClassifyResponse response = AnswerTo(request, sequence);
        const grpc::Status end = each_ ? each_(number, sequence, request, response) : grpc::Status::OK;
        if (!end.ok()) return end;
        stream.Write(response);
      }
      ++streams_ended_well_;
      return grpc::Status::OK;
    };
  }

  // Files that hold "0", "1" and so on.
  void WriteFiles(int count) {
    for (int i = 0; i < count; ++i) {
      files_.push_back({folder_.Write(std::to_string(i) + ".png", std::to_string(i)), absl::OkStatus()});
    }
  }

  BulkSummary Run() {
    FakeServer server(&handlers_);
    const auto client = Client::Create({.address = server.address()});
    EXPECT_TRUE(client.ok()) << client.status();
    ClassifyTransport transport(client->get(), {}, stream_options_);
    InputSource source({.images = files_});
    return RunBulk(
        source, options_, transport,
        [this](milliseconds wait) {
          const std::lock_guard lock(mutex_);
          waits_ms_.push_back(wait.count());
        },
        [this](const BulkInput& input, const InputResult& result) {
          EXPECT_EQ(input.index, delivered_.size());
          delivered_.push_back(result.status.ok() ? result.scores.at(0).label : result.status.ToString());
          return absl::OkStatus();
        });
  }

  void ExpectAllDelivered() {
    ASSERT_EQ(delivered_.size(), files_.size());
    for (size_t i = 0; i < files_.size(); ++i) EXPECT_EQ(delivered_[i], std::to_string(i));
  }

  const TemporaryFolder folder_;
  std::vector<InputFile> files_;
  BulkOptions options_;
  StreamCallOptions stream_options_{.timeout = milliseconds(60'000)};
  FakeHandlers handlers_;
  // What becomes of a request, by its stream's number and its own: its response may be changed, or the stream ended.
  std::function<grpc::Status(int stream, uint64_t sequence, const v1::ClassifyRequest&, v1::ClassifyResponse&)> each_;
  std::function<grpc::Status(const v1::ClassifyRequest&)> unary_;
  std::atomic<int> unary_calls_ = 0, streams_ = 0, stream_requests_ = 0, streams_ended_well_ = 0;
  std::mutex mutex_;
  std::vector<int64_t> waits_ms_;
  std::vector<std::string> delivered_;
};

TEST_F(BulkStreamTest, AllFilesShareOneStream) {
  WriteFiles(101);
  EXPECT_EQ(Run().failed, 0u);
  ExpectAllDelivered();
  EXPECT_EQ(streams_, 1);
  EXPECT_EQ(streams_ended_well_, 1);
  EXPECT_EQ(stream_requests_, 26);
  EXPECT_EQ(unary_calls_, 0);
}

TEST_F(BulkStreamTest, AServerThatDrainsHalfWayLosesNothing) {
  WriteFiles(200);
  each_ = [](int stream, uint64_t sequence, const v1::ClassifyRequest&, v1::ClassifyResponse&) {
    const bool ends = stream < 3 && sequence == 10;
    return ends ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining") : grpc::Status::OK;
  };
  EXPECT_EQ(Run().failed, 0u);
  ExpectAllDelivered();
  EXPECT_EQ(streams_, 4);
  EXPECT_EQ(unary_calls_, 0);
  EXPECT_THAT(waits_ms_, Each(Ge(50)));
  EXPECT_GE(waits_ms_.size(), 3u);
}

TEST_F(BulkStreamTest, AServerThatStaysAwayEndsTheRun) {
  WriteFiles(200);
  each_ = [](int, uint64_t, const v1::ClassifyRequest&, v1::ClassifyResponse&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  };
  const BulkSummary summary = Run();
  EXPECT_EQ(summary.stopped, absl::UnavailableError("draining"));
  EXPECT_EQ(summary.failed, 200u);
  EXPECT_EQ(unary_calls_, 0);
}

TEST_F(BulkStreamTest, AServerWithoutStreamsIsServedByUnaryCalls) {
  WriteFiles(100);
  handlers_.classify_stream = nullptr;
  EXPECT_EQ(Run().failed, 0u);
  ExpectAllDelivered();
  EXPECT_EQ(unary_calls_, 25);
  EXPECT_TRUE(waits_ms_.empty());
}

TEST_F(BulkStreamTest, AServerThatFailsAtStreamsIsServedByUnaryCalls) {
  WriteFiles(100);
  each_ = [](int, uint64_t, const v1::ClassifyRequest&, v1::ClassifyResponse& response) {
    response.set_sequence(1000);
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run().failed, 0u);
  ExpectAllDelivered();
  EXPECT_EQ(unary_calls_, 25);
  EXPECT_LE(streams_, options_.max_calls);  // no worker tries a second time
}

TEST_F(BulkStreamTest, ARefusalIsWaitedOut) {
  WriteFiles(40);
  std::atomic<int> refusals = 0;
  each_ = [&](int, uint64_t sequence, const v1::ClassifyRequest&, v1::ClassifyResponse& response) {
    if (sequence % 3 == 1 && refusals < 4) {
      ++refusals;
      response.clear_results();
      response.mutable_error()->set_code(8);
      response.mutable_error()->set_message("the queue is full");
    }
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run().failed, 0u);
  ExpectAllDelivered();
  EXPECT_EQ(streams_, 1);
  EXPECT_EQ(waits_ms_.size(), 4u);
  EXPECT_THAT(waits_ms_, Each(Ge(100)));
}

TEST_F(BulkStreamTest, ARequestRefusedAsAWholeIsSentInParts) {
  WriteFiles(20);
  each_ = [](int, uint64_t, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    for (const v1::Input& input : request.inputs()) {
      if (input.image() != "6") continue;
      response.clear_results();
      response.mutable_error()->set_code(3);
      response.mutable_error()->set_message("no image");
    }
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run().failed, 1u);
  EXPECT_EQ(delivered_.at(5), "5");
  EXPECT_EQ(delivered_.at(6), "INVALID_ARGUMENT: no image");
  EXPECT_EQ(delivered_.at(7), "7");
  EXPECT_EQ(streams_, 1);
  EXPECT_EQ(unary_calls_, 0);
}

TEST_F(BulkStreamTest, LargeRequestsGoAlone) {
  WriteFiles(40);
  files_.push_back({folder_.Write("large.png", std::string(5000, 'x')), absl::OkStatus()});
  options_.max_bytes = 1000;
  stream_options_.max_bytes = 2000;
  EXPECT_EQ(Run().failed, 0u);
  EXPECT_EQ(delivered_.at(40).size(), 5000u);
  EXPECT_EQ(unary_calls_, 1);
  EXPECT_EQ(stream_requests_, 10);
}

// As gRPC has it: a message over the limit ends the stream, and with it what others wait for.
TEST_F(BulkStreamTest, AMessageOverTheServersLimitFailsAlone) {
  WriteFiles(20);
  for (int i = 20; i < 25; ++i)
    files_.push_back({folder_.Write("large.png", std::string(5000, 'x')), absl::OkStatus()});
  for (int i = 25; i < 40; ++i) WriteFiles(1);
  const auto check = [](const v1::ClassifyRequest& request) {
    return request.ByteSizeLong() > 4000 ? kTooLarge : grpc::Status::OK;
  };
  each_ = [&](int, uint64_t, const v1::ClassifyRequest& request, v1::ClassifyResponse&) { return check(request); };
  unary_ = check;
  options_.max_inputs = 1;
  options_.max_calls = 1;
  EXPECT_EQ(Run().failed, 5u);
  for (int i = 0; i < 40; ++i) {
    const bool large = i >= 20 && i < 25;
    EXPECT_EQ(delivered_.at(i) == "RESOURCE_EXHAUSTED: Received message larger than max", large) << delivered_.at(i);
  }
  EXPECT_EQ(streams_, 2);
  EXPECT_EQ(unary_calls_, 5);  // the second large request knew better
}

TEST_F(BulkStreamTest, WhatOthersLoseToALargeMessageIsSentAgain) {
  WriteFiles(100);
  files_.insert(files_.begin() + 50, {folder_.Write("large.png", std::string(5000, 'x')), absl::OkStatus()});
  const auto check = [](const v1::ClassifyRequest& request) {
    return request.ByteSizeLong() > 4000 ? kTooLarge : grpc::Status::OK;
  };
  each_ = [&](int, uint64_t, const v1::ClassifyRequest& request, v1::ClassifyResponse&) { return check(request); };
  unary_ = check;
  EXPECT_EQ(Run().failed, 1u);
  EXPECT_EQ(delivered_.at(49), "49");
  EXPECT_EQ(delivered_.at(50), "RESOURCE_EXHAUSTED: Received message larger than max");
  EXPECT_EQ(delivered_.at(51), "50");
}

TEST_F(BulkStreamTest, AStreamWithoutAnswersIsLeftAfterTheTimeout) {
  WriteFiles(12);
  handlers_.classify_stream = [](grpc::ServerContext&, ClassifyServerStream& stream) {
    bool hangs = false;
    v1::ClassifyRequest request;
    for (uint64_t sequence = 0; stream.Read(&request); ++sequence) {
      hangs = hangs || request.inputs(0).image() == "0";
      if (!hangs) stream.Write(AnswerTo(request, sequence));
    }
    return grpc::Status::OK;
  };
  options_.max_calls = 1;
  stream_options_.timeout = milliseconds(500);
  stream_options_.grace = milliseconds(1);
  EXPECT_EQ(Run().failed, 4u);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(delivered_.at(i), i < 4 ? "DEADLINE_EXCEEDED: no answer within 500 ms" : std::to_string(i));
  }
  EXPECT_EQ(unary_calls_, 0);
}

}  // namespace
}  // namespace lion
