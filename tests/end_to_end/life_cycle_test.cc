// Flags, start-up errors, signals: what only the real process shows.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/v1/lion.grpc.pb.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ServerProcess;

std::vector<std::string> Arguments(const std::vector<std::string>& more = {},
                                   const std::string& golden = "lit_normal") {
  std::vector<std::string> arguments = {"--host", "127.0.0.1", "--max-input-tokens",
                                        "4096",   "--model",   testing::SourcePath("tests/golden/vision/" + golden)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::unique_ptr<v1::LionService::Stub> Connect(int port) {
  return v1::LionService::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
}

v1::EmbedRequest BlankImages(int inputs, uint32_t side) {
  v1::EmbedRequest request;
  for (int i = 0; i < inputs; ++i) {
    v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
    pixels->set_height(side);
    pixels->set_width(side);
    pixels->set_type(v1::PixelTensor::TYPE_UINT8);
    pixels->set_data(std::string(size_t{3} * side * side, '\x40'));
  }
  return request;
}

int64_t Lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(LifeCycleTest, SigtermUnderLoadLosesNothing) {
  ServerProcess server(Arguments({"--grpc-port", "0"}));
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const auto stub = Connect(port);
      const v1::EmbedRequest request = BlankImages(4, 64);
      while (true) {
        grpc::ClientContext context;
        v1::EmbedResponse response;
        const grpc::Status status = stub->Embed(&context, request, &response);
        if (!status.ok()) {
          // Refused by the server, or not sent at all: nothing that was accepted is lost.
          EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
          EXPECT_THAT(status.error_message(),
                      AnyOf(HasSubstr("shutting down"), HasSubstr("failed to connect"), HasSubstr("GOAWAY")));
          return;
        }
        EXPECT_EQ(response.results_size(), 4);
        ++answered;
      }
    });
  }
  while (answered < 50) std::this_thread::yield();
  server.Signal(SIGTERM);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.AwaitExit(), 0) << server.standard_error();
  EXPECT_THAT(server.standard_error(), HasSubstr("all accepted calls are finished"));
}

TEST(LifeCycleTest, AnIdleServerStopsOnSigint) {
  ServerProcess server(Arguments({"--grpc-port", "0"}));
  ASSERT_NE(server.AwaitServing(), 0) << server.standard_error();
  server.Signal(SIGINT);
  EXPECT_EQ(server.AwaitExit(), 0);
}

// A call that the plain loops of the reference device work on for much longer than a test takes.
class BusyServerTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = Arguments({"--grpc-port", "0", "--device", "reference"}, "decay_long");
    arguments.insert(arguments.end(), more.begin(), more.end());
    server_ = std::make_unique<ServerProcess>(arguments);
    const int port = server_->AwaitServing();
    ASSERT_NE(port, 0) << server_->standard_error();
    stub_ = Connect(port);
    caller_ = std::thread([this] {
      grpc::ClientContext context;
      v1::EmbedResponse response;
      status_ = stub_->Embed(&context, BlankImages(30, 480), &response);
    });
    // Once that is being worked on, nothing else is answered.
    grpc::Status probe;
    while (probe.ok()) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
      v1::EmbedResponse response;
      probe = stub_->Embed(&context, BlankImages(1, 64), &response);
    }
    EXPECT_EQ(probe.error_code(), grpc::DEADLINE_EXCEEDED) << probe.error_message();
  }
  void TearDown() override {
    server_.reset();
    if (caller_.joinable()) caller_.join();
    EXPECT_EQ(status_.error_code(), grpc::UNAVAILABLE);
  }
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<v1::LionService::Stub> stub_;
  std::thread caller_;
  grpc::Status status_;
};

TEST_F(BusyServerTest, ASecondSignalExitsAtOnce) {
  Start({});
  server_->Signal(SIGTERM);
  server_->AwaitLog("finishing what was accepted");
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->AwaitExit(), 1);
  EXPECT_THAT(server_->standard_error(), HasSubstr("exit at once"));
}

TEST_F(BusyServerTest, TheDrainTimeoutBoundsTheEnd) {
  Start({"--drain-timeout-s", "0"});
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->AwaitExit(), 1);
  EXPECT_THAT(server_->standard_error(), HasSubstr("--drain-timeout-s"));
}

TEST(LifeCycleTest, ABusyPortIsOneClearError) {
  ServerProcess first(Arguments({"--grpc-port", "0"}));
  const int port = first.AwaitServing();
  ASSERT_NE(port, 0) << first.standard_error();
  ServerProcess second(Arguments({"--grpc-port", absl::StrCat(port)}));
  EXPECT_EQ(second.AwaitExit(), 4);
  EXPECT_THAT(second.standard_error(), HasSubstr(absl::StrCat("127.0.0.1:", port)));
  EXPECT_EQ(Lines(second.standard_error()), 1) << second.standard_error();
}

TEST(LifeCycleTest, AMissingModelIsAModelError) {
  ServerProcess server({"--grpc-port", "0", "--model", "/nowhere/model.pth"});
  EXPECT_EQ(server.AwaitExit(), 3);
  EXPECT_THAT(server.standard_error(), HasSubstr("/nowhere/model.pth"));
}

TEST(LifeCycleTest, WrongFlagsAreUsageErrors) {
  const std::string model = testing::SourcePath("tests/golden/vision/lit_normal");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"--model", model, "--no-such-flag"},
           {"--model", model, "--grpc-port", "70000"},
           {"--model", model, "--compute-type", "float12"},
           {"--model", model, "--max-batch-tokens", "0"},
           {"--model", model, "--log-level", "loud"},
           {"--model", model, "--model", model},
           {"--model", "name="},
       }) {
    ServerProcess server(arguments);
    EXPECT_EQ(server.AwaitExit(), 2) << ::testing::PrintToString(arguments) << server.standard_error();
    EXPECT_FALSE(server.standard_error().empty());
  }
}

TEST(LifeCycleTest, AnUnknownInstructionSetIsADeviceError) {
  ServerProcess server(Arguments({"--grpc-port", "0", "--isa", "mmx"}));
  EXPECT_EQ(server.AwaitExit(), 5) << server.standard_error();
  EXPECT_THAT(server.standard_error(), HasSubstr("mmx"));
}

TEST(LifeCycleTest, EveryLogLineIsJsonWhenAskedFor) {
  ServerProcess server(Arguments({"--grpc-port", "0", "--log-format", "json", "--log-level", "debug"}));
  ASSERT_FALSE(server.AwaitLog("SERVING on ").empty()) << server.standard_error();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.AwaitExit(), 0);
  std::istringstream lines(server.standard_error());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(parsed.is_object()) << line;
    EXPECT_TRUE(parsed["time"].is_string() && parsed["level"].is_string() && parsed["message"].is_string()) << line;
  }
  EXPECT_GE(count, 5);
}

TEST(LifeCycleTest, FlagsBeatTheEnvironmentWhichBeatsTheFile) {
  const std::string file = ::testing::TempDir() + "lion_server_flags.toml";
  std::ofstream(file) << "grpc-port = 1111\nmax-wait-us = 2222\nmax-batch-inputs = 3333\nlog-level = \"error\"\n";
  ServerProcess server({"--config", file, "--print-config", "--model", "x", "--max-batch-inputs", "7"},
                       {{"LION_MAX_WAIT_US", "5"}, {"LION_MAX_BATCH_INPUTS", "6"}});
  EXPECT_EQ(server.AwaitExit(), 0) << server.standard_error();
  EXPECT_THAT(server.standard_output(), HasSubstr("grpc-port=1111"));
  EXPECT_THAT(server.standard_output(), HasSubstr("max-wait-us=5"));
  EXPECT_THAT(server.standard_output(), HasSubstr("max-batch-inputs=7"));
  EXPECT_THAT(server.standard_output(), HasSubstr("log-level=\"error\""));

  // What was printed is a configuration file that means the same.
  const std::string printed = ::testing::TempDir() + "lion_server_printed.toml";
  std::ofstream(printed) << server.standard_output();
  ServerProcess again({"--config", printed, "--print-config"});
  EXPECT_EQ(again.AwaitExit(), 0) << again.standard_error();
  EXPECT_EQ(again.standard_output(), server.standard_output());
}

TEST(LifeCycleTest, TheVersionIsPrinted) {
  ServerProcess server({"--version"});
  EXPECT_EQ(server.AwaitExit(), 0);
  EXPECT_THAT(server.standard_output(), HasSubstr("lion-server 0."));
}

}  // namespace
}  // namespace lion
