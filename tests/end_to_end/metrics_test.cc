// What a running server tells Prometheus.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lion/v1/lion.grpc.pb.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"
#include "tests/support/http_get.h"
#include "tests/support/metrics_page.h"

namespace lion {
namespace {

using ::testing::HasSubstr;
using testing::HttpGet;
using testing::ServerProcess;

class MetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    port_ = server_.AwaitServing();
    ASSERT_NE(port_, 0) << server_.standard_error();
    const std::string line = server_.AwaitLog("metrics on port ");
    metrics_port_ = std::atoi(line.substr(line.rfind(' ') + 1).c_str());
    stub_ = v1::LionService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials()));
  }

  testing::Samples Scrape() const { return testing::ScrapeMetrics(metrics_port_); }

  grpc::Status Embed(const std::string& model, uint32_t side, int inputs) {
    v1::EmbedRequest request;
    request.set_model(model);
    for (int i = 0; i < inputs; ++i) {
      v1::PixelTensor& pixels = *request.add_inputs()->mutable_pixels();
      pixels.set_type(v1::PixelTensor::TYPE_UINT8);
      pixels.set_width(side);
      pixels.set_height(side);
      pixels.set_data(std::string(size_t{3} * side * side, '\x40'));
    }
    grpc::ClientContext context;
    v1::EmbedResponse response;
    return stub_->Embed(&context, request, &response);
  }

  ServerProcess server_{{"--host", "127.0.0.1", "--grpc-port", "0", "--model",
                         absl::StrCat("m=", testing::SourcePath("tests/golden/vision/selective_s"))}};
  int port_ = 0;
  int metrics_port_ = 0;
  std::unique_ptr<v1::LionService::Stub> stub_;
};

TEST_F(MetricsTest, HaveAllSeriesAtZeroFromTheStart) {
  const auto samples = Scrape();
  EXPECT_EQ(samples.at(R"(lion_requests_total{code="OK",method="Embed",model="m",version="1"})"), 0);
  EXPECT_EQ(samples.at(R"(lion_rejected_total{model="m",reason="deadline",version="1"})"), 0);
  EXPECT_EQ(samples.at(R"(lion_model_ready{model="m",version="1"})"), 1);
  EXPECT_GT(samples.at("process_resident_memory_bytes"), 1e6);
  EXPECT_THAT(HttpGet(metrics_port_, "/health"), HasSubstr("200 OK"));
}

TEST_F(MetricsTest, CountCallsInputsAndBatches) {
  ASSERT_TRUE(Embed("m", 32, 3).ok());
  ASSERT_TRUE(Embed("", 32, 1).ok());
  EXPECT_EQ(Embed("m", 1, 1).error_code(), grpc::INVALID_ARGUMENT);
  const auto samples = Scrape();
  EXPECT_EQ(samples.at(R"(lion_requests_total{code="OK",method="Embed",model="m",version="1"})"), 2);
  EXPECT_EQ(samples.at(R"(lion_requests_total{code="INVALID_ARGUMENT",method="Embed",model="m",version="1"})"), 1);
  EXPECT_EQ(samples.at(R"(lion_request_duration_seconds_count{method="Embed",model="m",version="1"})"), 3);
  EXPECT_EQ(samples.at(R"(lion_queue_duration_seconds_count{model="m",version="1"})"), 4);
  EXPECT_EQ(samples.at(R"(lion_batch_size_sum{model="m",version="1"})"), 4);
  EXPECT_GT(samples.at(R"(lion_batch_tokens_sum{model="m",version="1"})"), 4);
  EXPECT_EQ(samples.at(R"(lion_compute_duration_seconds_count{model="m",version="1"})"),
            samples.at(R"(lion_batch_size_count{model="m",version="1"})"));
  EXPECT_EQ(samples.at(R"(lion_inflight_requests{model="m",version="1"})"), 0);
  EXPECT_EQ(samples.at(R"(lion_queue_depth{model="m",version="1"})"), 0);
}

TEST_F(MetricsTest, NamesThatNoModelHasMakeNoSeries) {
  const size_t series = Scrape().size();
  constexpr int kNames = 10'000;
  std::mt19937 random(1);
  for (int i = 0; i < kNames; ++i) {
    std::string name;
    while (name.size() < static_cast<size_t>(1 + i % 40)) name += static_cast<char>('a' + random() % 26);
    ASSERT_EQ(Embed(absl::StrCat(name, i), 16, 1).error_code(), grpc::NOT_FOUND);
  }
  const auto samples = Scrape();
  EXPECT_EQ(samples.size(), series);
  EXPECT_EQ(samples.at(R"(lion_requests_total{code="NOT_FOUND",method="Embed",model="unknown",version=""})"), kNames);
}

TEST_F(MetricsTest, CountEveryRequestOfAStream) {
  grpc::ClientContext context;
  const auto stream = stub_->EmbedStream(&context);
  v1::EmbedRequest request;
  v1::PixelTensor& pixels = *request.add_inputs()->mutable_pixels();
  pixels.set_type(v1::PixelTensor::TYPE_UINT8);
  pixels.set_width(32);
  pixels.set_height(32);
  pixels.set_data(std::string(3 * 32 * 32, '\x40'));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Write(v1::EmbedRequest()));  // which has no input
  stream->WritesDone();
  v1::EmbedResponse response;
  int responses = 0;
  while (stream->Read(&response)) ++responses;
  EXPECT_EQ(responses, 6);
  ASSERT_TRUE(stream->Finish().ok());
  const auto samples = Scrape();
  EXPECT_EQ(samples.at(R"(lion_requests_total{code="OK",method="EmbedStream",model="m",version="1"})"), 5);
  EXPECT_EQ(samples.at(R"(lion_requests_total{code="INVALID_ARGUMENT",method="EmbedStream",model="m",version="1"})"),
            1);
  EXPECT_EQ(samples.at(R"(lion_inflight_requests{model="m",version="1"})"), 0);
}

TEST(MetricsPortTest, InUseIsAnErrorThatNamesTheFlag) {
  const std::string model = testing::SourcePath("tests/golden/vision/selective_s");
  ServerProcess first({"--host", "127.0.0.1", "--grpc-port", "0", "--model", model});
  const std::string line = first.AwaitLog("metrics on port ");
  ServerProcess second({"--host", "127.0.0.1", "--grpc-port", "0", "--model", model, "--metrics-port",
                        line.substr(line.rfind(' ') + 1)});
  EXPECT_EQ(second.AwaitExit(), 4);
  EXPECT_THAT(second.standard_error(), HasSubstr("--metrics-port"));
}

TEST(MetricsPortTest, MayBeOnAnotherAddressThanTheCalls) {
  const std::string model = testing::SourcePath("tests/golden/vision/selective_s");
  ServerProcess apart({"--host", "127.0.0.2", "--grpc-port", "0", "--metrics-host", "127.0.0.1", "--model", model});
  const std::string line = apart.AwaitLog("metrics on 127.0.0.1 port ");
  EXPECT_THAT(HttpGet(std::atoi(line.c_str() + line.rfind(' ')), "/v2/health/live"), HasSubstr("200 OK"));
  ServerProcess together({"--host", "127.0.0.2", "--grpc-port", "0", "--model", model});
  const std::string other = together.AwaitLog("metrics on port ");
  EXPECT_EQ(HttpGet(std::atoi(other.c_str() + other.rfind(' ')), "/v2/health/live"), "no connection");
}

TEST(MetricsPortTest, AnAddressOfAnotherMachineIsAnErrorThatNamesTheFlag) {
  ServerProcess server({"--host", "127.0.0.1", "--grpc-port", "0", "--metrics-host", "192.0.2.1", "--model",
                        testing::SourcePath("tests/golden/vision/selective_s")});
  EXPECT_EQ(server.AwaitExit(), 4);
  EXPECT_THAT(server.standard_error(), HasSubstr("--metrics-host"));
}

TEST(MetricsPortTest, MinusOneIsNone) {
  ServerProcess server({"--host", "127.0.0.1", "--grpc-port", "0", "--metrics-port", "-1", "--model",
                        testing::SourcePath("tests/golden/vision/selective_s")});
  ASSERT_NE(server.AwaitServing(), 0) << server.standard_error();
  EXPECT_FALSE(absl::StrContains(server.standard_error(), "metrics on port"));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.AwaitExit(), 0);
}

}  // namespace
}  // namespace lion
