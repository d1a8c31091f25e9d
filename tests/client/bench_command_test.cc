// `lion bench`, the built program, against a fake server: real time, so that bounds are one-sided or wide. What it
// reports exactly is tested in virtual time (bench_run_test.cc).
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "tests/client/command_line.h"

namespace lion {
namespace {

using ::lion::testing::CommandLineTest;
using ::lion::testing::Outcome;
using ::lion::testing::ReadFile;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class BenchCommandTest : public CommandLineTest {
 protected:
  BenchCommandTest() {
    handlers_.get_model = [](const v1::GetModelRequest& request, v1::Model& model) {
      if (request.model() == "gone") return grpc::Status(grpc::StatusCode::NOT_FOUND, "no model gone");
      model.set_name("digits");
      model.set_image_size(28);
      return grpc::Status::OK;
    };
    handlers_.embed = [this](grpc::ServerContext& context, const v1::EmbedRequest& request,
                             v1::EmbedResponse& response) {
      const int call = embed_calls_++;
      const auto start = steady_clock::now();
      if (before_answer_) before_answer_(call);
      {
        const std::lock_guard lock(mutex_);
        peers_.insert(context.peer());
        last_ = request;
        const auto served = std::chrono::nanoseconds(steady_clock::now() - start).count();
        served_ns_.push_back(served);
        response.mutable_timing()->set_total_ns(static_cast<uint64_t>(served));
        response.mutable_timing()->set_batch_inputs(1);
      }
      if (status_) {
        if (const grpc::Status status = status_(call); !status.ok()) return status;
      }
      for (int i = 0; i < request.inputs_size(); ++i) response.add_results()->set_tokens(50);
      return grpc::Status::OK;
    };
  }

  ~BenchCommandTest() override {
    hang_ = false;
    server_.reset();  // its threads use what follows
  }

  // The report of a run that succeeds.
  nlohmann::json Report(const std::string& flags) {
    const Outcome outcome = Run("bench --json - --warm-up-s 0 " + flags);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }

  // What the server saw, once the program has ended.
  std::vector<int64_t> SortedServedNs() {
    const std::lock_guard lock(mutex_);
    std::sort(served_ns_.begin(), served_ns_.end());
    return served_ns_;
  }
  v1::EmbedRequest LastRequest() {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  size_t ConnectionCount() {
    const std::lock_guard lock(mutex_);
    return peers_.size();
  }

  std::function<void(int call)> before_answer_;
  std::function<grpc::Status(int call)> status_;
  std::atomic<bool> hang_ = true;
  std::atomic<int> embed_calls_ = 0;

 private:
  std::mutex mutex_;  // guards what follows
  std::set<std::string> peers_;
  std::vector<int64_t> served_ns_;
  v1::EmbedRequest last_;
};

TEST_F(BenchCommandTest, AnOpenLoopMeasuresTheServersDistribution) {
  before_answer_ = [](int call) { std::this_thread::sleep_for(milliseconds(call % 20 == 0 ? 250 : 50)); };
  const auto report = Report("--rate 50 --requests 200");
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["calls"]["succeeded"], 200);
  const auto& latency = report["latency"]["from_send"];
  const std::vector<int64_t> served_ns = SortedServedNs();
  ASSERT_EQ(served_ns.size(), 200u);
  // No call can be answered before the server has served it; that it takes no longer than a second more is all that a
  // busy machine promises.
  const std::pair<const char*, int> percentiles[] = {{"p50_ns", 100}, {"p90_ns", 180}};
  for (const auto& [name, rank] : percentiles) {
    const int64_t truth_ns = served_ns[rank - 1];
    EXPECT_GE(latency[name].get<double>(), 0.999 * static_cast<double>(truth_ns)) << name;
    EXPECT_LT(latency[name].get<int64_t>(), truth_ns + 1'000'000'000) << name;
  }
  EXPECT_GE(latency["max_ns"].get<int64_t>(), 250'000'000);
  EXPECT_TRUE(latency["p99_ns"].is_null());
  EXPECT_EQ(report["latency"]["server_total"]["max_ns"].get<int64_t>(), served_ns.back());
  EXPECT_GE(report["latency"]["from_schedule"]["mean_ns"].get<int64_t>(), latency["mean_ns"].get<int64_t>());
}

TEST_F(BenchCommandTest, AClosedLoopSendsPreparedImagesOfTheMixOverItsConnections) {
  const auto report = Report("--concurrency 4 --requests 60 --connections 3 --sizes 32x16:3,8 --inputs-per-call 2");
  EXPECT_EQ(report["calls"]["succeeded"], 60);
  EXPECT_EQ(report["setup"]["loop"], "closed");
  EXPECT_EQ(ConnectionCount(), 3u);
  const v1::EmbedRequest request = LastRequest();
  EXPECT_EQ(request.inputs_size(), 2);
  EXPECT_EQ(request.inputs(0).pixels().type(), v1::PixelTensor::TYPE_UINT8);
  EXPECT_EQ(request.inputs(0).pixels().data().size(),
            3u * request.inputs(0).pixels().width() * request.inputs(0).pixels().height());
  EXPECT_NE(request.inputs(0).pixels().data(), request.inputs(1).pixels().data());
  const int64_t counts[] = {report["sizes"][0]["latency"]["count"], report["sizes"][1]["latency"]["count"]};
  EXPECT_EQ(counts[0] + counts[1], 60);
  EXPECT_GT(counts[0], counts[1]);
  EXPECT_NEAR(report["per_second"]["tokens"].get<double>(), 50 * report["per_second"]["images"].get<double>(), 1e-3);
}

TEST_F(BenchCommandTest, EncodedImagesAreSentToBeTakenAsTheyAre) {
  Report("--concurrency 1 --requests 1 --format png --priority 7 --model digits");
  v1::EmbedRequest request = LastRequest();
  EXPECT_THAT(request.inputs(0).image(), StartsWith("\x89PNG"));
  EXPECT_EQ(request.options().image().resize(), v1::ImageOptions::RESIZE_NONE);
  EXPECT_EQ(request.options().priority(), 7u);
  EXPECT_EQ(request.model(), "digits");
  Report("--concurrency 1 --requests 1 --format jpeg --resize center_crop");
  request = LastRequest();
  EXPECT_THAT(request.inputs(0).image(), StartsWith("\xFF\xD8\xFF"));
  EXPECT_EQ(request.options().image().resize(), v1::ImageOptions::RESIZE_CENTER_CROP);
}

TEST_F(BenchCommandTest, ClassifyIsAnotherCall) {
  std::atomic<int> calls = 0;
  handlers_.classify = [&](grpc::ServerContext&, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    ++calls;
    EXPECT_EQ(request.inputs(0).pixels().width(), 28u);  // as the model was trained
    response.add_results();
    return grpc::Status::OK;
  };
  Report("--concurrency 1 --requests 5 --call classify");
  EXPECT_EQ(calls, 5);
}

TEST_F(BenchCommandTest, TheTextGoesToStandardOutputAndJsonToItsFile) {
  const Outcome outcome = Run("bench --concurrency 2 --requests 30 --warm-up-s 0.01 --json r.json");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("embed on 127.0.0.1:"), HasSubstr("closed loop: 2 calls at a time"),
                                 HasSubstr("30 sent, 30 succeeded, 0 failed\n"), HasSubstr("LATENCY, ms")));
  const auto json = nlohmann::json::parse(ReadFile(folder_.Path("r.json")));
  EXPECT_EQ(json["calls"]["succeeded"], 30);
  EXPECT_EQ(json["calls"]["warm_up"].get<int>(), embed_calls_ - 30);
  EXPECT_GE(embed_calls_, 31);
}

TEST_F(BenchCommandTest, ErrorsAreReportedByCodeAndSomeSuccessIsSuccess) {
  status_ = [](int call) {
    return call % 2 == 0 ? grpc::Status::OK : grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  };
  const Outcome outcome = Run("bench --rate 200 --requests 40 --warm-up-s 0");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("40 sent, 20 succeeded, 20 failed"),
                                 ContainsRegex("   20  RESOURCE_EXHAUSTED +[0-9.]+ +- +[0-9.]+  the queue is full\n"),
                                 HasSubstr("! THE RATE WAS NOT KEPT"), HasSubstr("20 calls failed")));
}

TEST_F(BenchCommandTest, ARunWithoutASuccessFailsAndSaysWhy) {
  status_ = [](int) { return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "too large"); };
  const Outcome outcome = Run("bench --rate 200 --requests 4 --warm-up-s 0");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("4 sent, 0 succeeded, 4 failed"));
  EXPECT_EQ(outcome.err, "lion: no call succeeded: INVALID_ARGUMENT: too large\n");
}

TEST_F(BenchCommandTest, WhatCannotBeLoadedIsAnErrorBeforeAnythingIsSent) {
  Outcome outcome = Run("bench --rate 1 --model gone");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.err, "lion: NOT_FOUND: no model gone\n");
  outcome = Run("bench --concurrency 1 --sizes 30000");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("30000x30000: 2700000000 bytes of pixels"));
  address_ = server_->address();
  server_.reset();
  outcome = Run("bench --rate 1");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, StartsWith("lion: cannot connect to 127.0.0.1:"));
  EXPECT_EQ(embed_calls_, 0);
}

// The first SIGINT ends a run of an hour, the second one a call that would never be answered.
TEST_F(BenchCommandTest, InterruptsEndTheRunWithAReport) {
  before_answer_ = [this](int call) {
    while (call == 3 && hang_) std::this_thread::sleep_for(milliseconds(1));
  };
  std::thread interrupter([this] {
    while (embed_calls_ < 4) std::this_thread::sleep_for(milliseconds(1));
    const int pid = std::stoi(ReadFile(folder_.Path("pid")));
    EXPECT_EQ(::kill(pid, SIGINT), 0);
    // Once it is noticed no more calls come.
    for (int before = -1; before != embed_calls_; std::this_thread::sleep_for(milliseconds(500))) before = embed_calls_;
    EXPECT_EQ(::kill(pid, SIGINT), 0);
  });
  limit_ = "echo $$ > pid && exec env";  // the program takes the place of the shell
  const Outcome outcome = Run("bench --rate 100 --duration-s 3600 --warm-up-s 0 --timeout-ms 0");
  interrupter.join();
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex(" [1-9][0-9]* succeeded, 0 failed, 0 not sent, [1-9][0-9]* cut off\n"),
                                 HasSubstr(" cut off unanswered"), HasSubstr("! The run was ended early, after ")));
}

TEST_F(BenchCommandTest, UsageErrorsSayWhatIsAccepted) {
  const std::pair<const char*, const char*> refused[] = {
      {"", "Exactly 1 option from"},
      {"--rate 1 --concurrency 1", "Exactly 1 option from"},
      {"--rate 0", "--rate: 0 is not from 0.001 to 1000000"},
      {"--rate nan", "--rate: nan is not from 0.001 to 1000000"},
      {"--rate 1 --requests 5 --duration-s 1", "excludes"},
      {"--rate 1 --arrivals sometimes", "--arrivals"},
      {"--rate 1 --sizes 0x5", "--sizes: \"0x5\": expected a side or WIDTHxHEIGHT"},
      {"--rate 1 --format gif", "--format"},
      {"--rate 1 --priority 10", "--priority"},
      {"--concurrency 0", "--concurrency"}};
  for (const auto& [flags, message] : refused) {
    const Outcome outcome = Run(std::string("bench ") + flags);
    EXPECT_EQ(outcome.exit_status, 2) << flags;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << flags;
  }
  EXPECT_EQ(embed_calls_, 0);
}

}  // namespace
}  // namespace lion
