// Exactly-once accounting against the real server: calls and streams of many clients with random sizes, cancels,
// deadlines and bad inputs, while its models are loaded again and again. Every request has exactly one ending, every
// answer the bits of the same image sent alone, and the server's metrics agree. LION_REQUESTS (default 2000) and
// LION_CLIENTS (8) change the size of the run: scripts/acceptance/accounting.sh does.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"
#include "tests/acceptance/accounting_traffic.h"
#include "tests/acceptance/environment.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"
#include "tests/support/metrics_page.h"

namespace lion::accounting {
namespace {

using testing::FromEnvironment;
using testing::Samples;
using testing::SumOf;

constexpr int kImages = 300;
constexpr std::chrono::milliseconds kScrapeInterval(100);

class AccountingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const int port = server_.AwaitServing();
    ASSERT_NE(port, 0) << server_.standard_error();
    address_ = absl::StrCat("127.0.0.1:", port);
    const std::string line = server_.AwaitLog("metrics on port ");
    metrics_port_ = std::atoi(line.c_str() + line.rfind(' '));
    client_ = Client::Create({.address = address_, .own_connection = true}).value();
    std::mt19937 random(5);
    for (int i = 0; i < kImages; ++i) {
      v1::EmbedRequest request;
      request.set_model(kGivenUp);
      *request.add_inputs() = RandomImage(random);
      request.set_packed_bytes(true);
      const auto response = client_->Embed(request);
      ASSERT_TRUE(response.ok()) << response.status();
      books_.AddImage(request.inputs(0), response->results(0).embedding().data());
    }
  }

  // The last sample of every series that there ever was: of a version that is gone, what it counted last.
  void Scrape() {
    for (const auto& [series, sample] : testing::ScrapeMetrics(metrics_port_)) samples_[series] = sample;
  }
  std::string VersionOf(const std::string& name) const {
    const auto model = client_->GetModel(name);
    return model.ok() ? model->version() : model.status().ToString();
  }
  // Again and again, until it is told that this is enough.
  void Reload() {
    for (int version = 2; version == 2 || !enough_; ++version) {
      server_.Signal(SIGHUP);
      for (const char* name : {kCounted, kGivenUp}) {
        while (VersionOf(name) != std::to_string(version)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      ++reloads_;
    }
  }

  // The server's count of requests that ended so. Of those that name no model there is, NOT_FOUND are of kCounted; what
  // is given up before it has arrived names none either.
  int64_t Counted(bool given_up, bool stream, absl::StatusCode code) const {
    std::vector<std::string> labels = {absl::StrCat("method=\"", stream ? "EmbedStream" : "Embed", "\""),
                                       absl::StrCat("code=\"", absl::StatusCodeToString(code), "\""), ""};
    const auto sum = [&](const std::string& model) {
      labels.back() = absl::StrCat("model=\"", model, "\"");
      return static_cast<int64_t>(SumOf(samples_, "lion_requests_total", labels));
    };
    const bool with_unknown = given_up != (code == absl::StatusCode::kNotFound);
    return sum(given_up ? kGivenUp : kCounted) + (with_unknown ? sum("unknown") : 0);
  }

  testing::ServerProcess server_{{"--model", absl::StrCat(kCounted, "=", testing::SourcePath("models/mnist-lion-s")),
                                  "--model", absl::StrCat(kGivenUp, "=", testing::SourcePath("models/mnist-lion-s")),
                                  "--host", "127.0.0.1", "--grpc-port", "0", "--max-input-tokens", "4096"}};
  std::string address_;
  int metrics_port_ = 0;
  std::unique_ptr<Client> client_;
  Books books_;
  Samples samples_;
  std::atomic<bool> enough_ = false;
  int reloads_ = 0;
};

TEST_F(AccountingTest, EveryRequestHasExactlyOneEndingEveryAnswerIsRightAndTheMetricsAgree) {
  const int requests = FromEnvironment("LION_REQUESTS", 2000);
  const int clients = FromEnvironment("LION_CLIENTS", 8);
  std::thread reloading([this] { Reload(); });
  std::thread scraping([this] {
    for (; !enough_; std::this_thread::sleep_for(kScrapeInterval)) Scrape();
  });
  std::vector<std::deque<Sent>> sent(static_cast<size_t>(clients));
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    const int share = requests / clients + (i < requests % clients ? 1 : 0);
    threads.emplace_back([&, i, share] {
      RunClient(address_, share, static_cast<uint32_t>(i + 1), books_, sent[static_cast<size_t>(i)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  enough_ = true;
  reloading.join();
  scraping.join();
  // The server hears a little later of what its callers gave up.
  do Scrape();
  while (SumOf(samples_, "lion_inflight_requests") + SumOf(samples_, "lion_queue_depth") > 0);

  int64_t without = 0, all = 0, given_up = 0, inputs = 0;
  for (const auto& of_client : sent) {
    for (const Sent& one : of_client) {
      ++all;
      without += one.endings == 0;
      given_up += one.given_up;
      if (!one.given_up && one.kind <= Kind::kHasty) inputs += static_cast<int64_t>(one.images.size());
    }
  }
  std::cout << all << " requests of " << clients << " clients during " << reloads_ << " reloads: " << books_.Describe()
            << "; " << without << " without an ending, " << books_.twice() << " with more than one, " << books_.wrong()
            << " wrong answers, " << books_.unexpected() << " unexpected errors\n";
  EXPECT_EQ(all, requests);
  EXPECT_EQ(without, 0);
  EXPECT_EQ(books_.twice(), 0);
  EXPECT_EQ(books_.wrong(), 0);
  EXPECT_EQ(books_.unexpected(), 0);
  EXPECT_GT(books_.endings(absl::StatusCode::kOk), requests / 2);

  // The metrics. What the server alone ends is known exactly, by method and code.
  int64_t known = 0, known_of_given_up = 0;
  for (const bool stream : {false, true}) {
    for (int number = 0; number <= 16; ++number) {
      const auto code = static_cast<absl::StatusCode>(number);
      const int64_t count = Counted(false, stream, code);
      EXPECT_EQ(count, books_.endings(false, stream, code)) << absl::StatusCodeToString(code) << " stream: " << stream;
      known += count;
      known_of_given_up += Counted(true, stream, code);
    }
    // The server answers no fewer than their callers got, and knows of no more than they sent.
    EXPECT_GE(Counted(true, stream, absl::StatusCode::kOk),
              books_.endings(true, stream, absl::StatusCode::kOk) + (stream ? 0 : kImages));
  }
  EXPECT_LE(known_of_given_up, given_up + kImages);
  EXPECT_EQ(SumOf(samples_, "lion_requests_total"), SumOf(samples_, "lion_request_duration_seconds_count"));
  const std::vector<std::string> counted = {absl::StrCat("model=\"", kCounted, "\"")};
  EXPECT_EQ(SumOf(samples_, "lion_batch_size_sum", counted) + SumOf(samples_, "lion_rejected_total", counted), inputs)
      << "every input was computed or turned away, once";
  EXPECT_EQ(SumOf(samples_, "lion_model_reloads_total", {"result=\"failure\""}), 0);
  EXPECT_GE(reloads_, 1);
  std::cout << "the metrics agree on " << known << " requests and " << inputs
            << " inputs that the server alone ended\n";
  server_.Signal(SIGTERM);
  EXPECT_EQ(server_.AwaitExit(), 0) << "something of a request is still inside";
}

}  // namespace
}  // namespace lion::accounting
