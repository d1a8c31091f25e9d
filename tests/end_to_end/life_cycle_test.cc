// Flags, start-up errors, signals: what only the real process shows.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

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
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"
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

TEST(LifeCycleTest, ADrainDelayLetsCallsInWhileHealthSendsCallersAway) {
  ServerProcess server(Arguments({"--grpc-port", "0", "--drain-delay-s", "4"}));
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  auto client = Client::Create({.address = absl::StrCat("127.0.0.1:", port)});
  ASSERT_TRUE(client.ok());
  server.Signal(SIGTERM);
  ASSERT_FALSE(server.AwaitLog("--drain-delay-s").empty());
  EXPECT_EQ((*client)->CheckHealth("").value_or(HealthState::kUnknown), HealthState::kNotServing);
  EXPECT_TRUE((*client)->Embed(BlankImages(1, 64)).ok());
  EXPECT_EQ(server.AwaitExit(), 0);
  EXPECT_TRUE(absl::IsUnavailable((*client)->Embed(BlankImages(1, 64)).status()));
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
  // The repeated ones within 100 ms of the first count as the same.
  while (server_->standard_error().find("exit at once") == std::string::npos) {
    server_->Signal(SIGTERM);
    std::this_thread::yield();
  }
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
           {"--model", ""},
           {"--model", model, "--isa", "bogus"},
           {"--model", "na\xffme=" + model},
           {"--model", "na\nme=" + model},
           {"--model", model, "--mask-type", "lion"},
           {"--model", model, "--max-inflight-bytes", "-1"},
       }) {
    ServerProcess server(arguments);
    EXPECT_EQ(server.AwaitExit(), 2) << ::testing::PrintToString(arguments) << server.standard_error();
    EXPECT_FALSE(server.standard_error().empty());
  }
}

// A supervisor may signal the process, and its group as well.
TEST(LifeCycleTest, SignalsThatComeTogetherAreOne) {
  ServerProcess server(Arguments({"--grpc-port", "0"}));
  ASSERT_NE(server.AwaitServing(), 0) << server.standard_error();
  // Two different ones, which the system does not merge.
  server.Signal(SIGTERM);
  server.Signal(SIGINT);
  EXPECT_EQ(server.AwaitExit(), 0) << server.standard_error();
  EXPECT_THAT(server.standard_error(), HasSubstr("the same request"));
  EXPECT_THAT(server.standard_error(), HasSubstr("all accepted calls are finished"));
}

// No port was open: there is nothing in the log but the error.
TEST(LifeCycleTest, AQueueThatHoldsNoInputIsAUsageErrorBeforeThePortIsOpen) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--max-queue-tokens", "1"}, {"--max-queue-tokens", "4095"}}) {
    ServerProcess server(Arguments(more));
    EXPECT_EQ(server.AwaitExit(), 2) << server.standard_error();
    EXPECT_THAT(server.standard_error(), HasSubstr("--max-queue-tokens: got " + more[1] + ", want 0 or at least 4096"));
    EXPECT_EQ(Lines(server.standard_error()), 1) << server.standard_error();
  }
  const std::string model = testing::SourcePath("tests/golden/vision/lit_normal");
  ServerProcess automatic({"--model", model, "--max-queue-tokens", "8191"});
  EXPECT_EQ(automatic.AwaitExit(), 2) << automatic.standard_error();
  EXPECT_THAT(automatic.standard_error(), HasSubstr("want 0 or at least 8192, --max-batch-tokens"));
  ServerProcess fits({"--host", "127.0.0.1", "--grpc-port", "0", "--model", model, "--max-queue-tokens", "8192"});
  EXPECT_NE(fits.AwaitServing(), 0) << fits.standard_error();
  EXPECT_THAT(fits.standard_error(), HasSubstr("input 8192 tokens, queue 8192 tokens"));
}

// Lowers the soft limit of a resource for the processes started meanwhile.
class LowerLimit {
 public:
  LowerLimit(__rlimit_resource resource, rlim_t soft) : resource_(resource) {
    getrlimit(resource, &before_);
    const rlimit low = {soft, before_.rlim_max};
    setrlimit(resource, &low);
  }
  ~LowerLimit() { setrlimit(resource_, &before_); }
  const rlimit& before() const { return before_; }

 private:
  const __rlimit_resource resource_;
  rlimit before_ = {};
};

TEST(LifeCycleTest, BadRequestsDoNotFillTheLog) {
  for (const bool debug : {false, true}) {
    ServerProcess server(Arguments({"--grpc-port", "0", "--log-level", debug ? "debug" : "info"}));
    const int port = server.AwaitServing();
    ASSERT_NE(port, 0) << server.standard_error();
    v1::EmbedRequest request = BlankImages(1, 64);
    request.set_model("\xff");  // protobuf sends it with a complaint on this process's stderr
    grpc::ClientContext context;
    v1::EmbedResponse response;
    const grpc::Status status = Connect(port)->Embed(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::INTERNAL) << status.error_message();
    server.Signal(SIGTERM);
    EXPECT_EQ(server.AwaitExit(), 0);
    EXPECT_EQ(server.standard_error().find("rotobuf") != std::string::npos, debug) << server.standard_error();
  }
}

TEST(LifeCycleTest, AllTheFilesThatMayBeOpenAreUsed) {
  const LowerLimit files(RLIMIT_NOFILE, 100);
  ServerProcess server(Arguments({"--grpc-port", "0"}));
  ASSERT_NE(server.AwaitServing(), 0) << server.standard_error();
  EXPECT_THAT(server.standard_error(), HasSubstr(absl::StrCat("up to ", files.before().rlim_max, " open files")));
}

#ifndef LION_SANITIZED  // which take all of the address space
TEST(LifeCycleTest, ThreadsThatCannotBeHadAreOneClearError) {
  // Stacks of 8 MiB each.
  const LowerLimit memory(RLIMIT_AS, rlim_t{3} << 30);
  for (const char* flag : {"--decode-threads", "--cpu-threads"}) {
    ServerProcess server(Arguments({"--grpc-port", "0", flag, "1024"}));
    EXPECT_EQ(server.AwaitExit(), 5) << server.standard_error();
    EXPECT_THAT(server.standard_error(), HasSubstr(flag));
    EXPECT_EQ(Lines(server.standard_error()), 1) << server.standard_error();
  }
}

TEST(LifeCycleTest, ThreadsOfARepositorysModelsAreCountedBeforeThePortIsOpen) {
  const LowerLimit memory(RLIMIT_AS, rlim_t{3} << 30);
  const std::filesystem::path repository =
      std::filesystem::path(::testing::TempDir()) / absl::StrCat("threads_", getpid());
  std::filesystem::create_directories(repository);
  for (int i = 0; i < 10; ++i) {
    std::filesystem::create_directory_symlink(testing::SourcePath("tests/golden/vision/lit_normal"),
                                              repository / absl::StrCat("m", i));
  }
  // 100 threads could be had for one model, and not for each of eleven.
  ServerProcess server(
      {"--grpc-port", "0", "--host", "127.0.0.1", "--cpu-threads", "100", "--model-repository", repository.string()});
  EXPECT_EQ(server.AwaitExit(), 5) << server.standard_error();
  EXPECT_THAT(server.standard_error(), HasSubstr("threads"));
  EXPECT_EQ(Lines(server.standard_error()), 1) << server.standard_error();
  std::filesystem::remove_all(repository);
}
#endif

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

TEST(LifeCycleTest, AWrongKeyInTheConfigurationFileIsAnError) {
  const std::string file = ::testing::TempDir() + "lion_server_typo.toml";
  for (const auto& [text, named] : std::vector<std::pair<std::string, std::string>>{
           {"max-wait-us = 5\nmax-batch-input = 3333\n", "'max-batch-input' is not known"},
           {"[server]\nmax-wait-us = 5\n", "section [server] is not known"},
           {"config = \"x\"\n", "'config' is not known"}}) {
    std::ofstream(file) << text;
    ServerProcess server({"--config", file, "--print-config"});
    EXPECT_EQ(server.AwaitExit(), 2) << text;
    EXPECT_THAT(server.standard_error(), HasSubstr(named));
  }
}

TEST(LifeCycleTest, TheConfigurationFileMayBeNamedByTheEnvironment) {
  const std::string file = ::testing::TempDir() + "lion_server_environment.toml";
  std::ofstream(file) << "grpc-port = 1111\n";
  ServerProcess server({"--print-config"}, {{"LION_CONFIG", file}});
  EXPECT_EQ(server.AwaitExit(), 0) << server.standard_error();
  EXPECT_THAT(server.standard_output(), HasSubstr("grpc-port=1111"));
  ServerProcess missing({"--print-config"}, {{"LION_CONFIG", "/nowhere/lion.toml"}});
  EXPECT_EQ(missing.AwaitExit(), 2);
  EXPECT_THAT(missing.standard_error(), HasSubstr("/nowhere/lion.toml"));
}

TEST(LifeCycleTest, AnEmptyVariableLeavesTheFileAlone) {
  const std::string file = ::testing::TempDir() + "lion_server_empty_variable.toml";
  std::ofstream(file) << "grpc-port = 1111\n";
  ServerProcess server({"--config", file, "--print-config"}, {{"LION_GRPC_PORT", ""}, {"LION_CONFIG", ""}});
  EXPECT_EQ(server.AwaitExit(), 0) << server.standard_error();
  EXPECT_THAT(server.standard_output(), HasSubstr("grpc-port=1111"));
}

TEST(LifeCycleTest, TheSettingsArePrintedWithoutAModelAndMeanTheSame) {
  ServerProcess server({"--print-config"});
  EXPECT_EQ(server.AwaitExit(), 0) << server.standard_error();
  EXPECT_THAT(server.standard_output(), HasSubstr("grpc-port=8001"));
  const std::string printed = ::testing::TempDir() + "lion_server_printed_bare.toml";
  std::ofstream(printed) << server.standard_output();
  const std::string model = testing::SourcePath("tests/golden/vision/lit_normal");
  ServerProcess again({"--config", printed, "--print-config"});
  EXPECT_EQ(again.AwaitExit(), 0) << again.standard_error();
  EXPECT_EQ(again.standard_output(), server.standard_output());
  ServerProcess bare({"--config", printed});
  EXPECT_EQ(bare.AwaitExit(), 2);
  EXPECT_THAT(bare.standard_error(), HasSubstr("no model: want --model [NAME=]PATH or --model-repository DIR"));
  ServerProcess with_model({"--config", printed, "--grpc-port", "0", "--model", model});
  EXPECT_NE(with_model.AwaitServing(), 0) << with_model.standard_error();
}

TEST(LifeCycleTest, ArchitectureValuesHaveAllTheirSpellings) {
  for (const char* name : {"lit", "LION-LIT", "Linear_Attention", "auto", "AUTO"}) {
    ServerProcess server(
        Arguments({"--grpc-port", "0", "--mask-type", name, "--order", "Normal", "--pooling", "MEAN"}));
    EXPECT_NE(server.AwaitServing(), 0) << name << server.standard_error();
  }
  // Understood, and at odds with the checkpoint.
  ServerProcess other(Arguments({"--grpc-port", "0", "--mask-type", "d"}));
  EXPECT_EQ(other.AwaitExit(), 3) << other.standard_error();
  ServerProcess help({"--help"});
  EXPECT_EQ(help.AwaitExit(), 0);
  EXPECT_THAT(help.standard_output(), HasSubstr("lit|d|s|softmax"));
}

TEST(LifeCycleTest, TheLogNamesTheOriginOfEveryValue) {
  ServerProcess server(Arguments({"--grpc-port", "0", "--heads", "4"}));
  ASSERT_NE(server.AwaitServing(), 0) << server.standard_error();
  EXPECT_THAT(server.standard_error(), HasSubstr("from        --heads: heads 4\n"));
  EXPECT_THAT(server.standard_error(), HasSubstr("from        config.json mask_type: mask type LION-LIT\n"));
}

TEST(LifeCycleTest, ABatchIsCutToTheMemoryAndTheLogNamesTheFlag) {
  const std::string model = testing::SourcePath("tests/golden/vision/lit_normal");
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--model", "a=" + model},
           {"--model", "a=" + model, "--model", "b=" + model},
           {"--model", "a=" + model, "--max-input-tokens", "4096"},
           {"--model", "a=" + model, "--model", "b=" + model, "--max-input-tokens", "4096"}}) {
    std::vector<std::string> arguments = {"--host", "127.0.0.1",          "--grpc-port",
                                          "0",      "--max-batch-tokens", "1000000000"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ServerProcess server(arguments);
    ASSERT_NE(server.AwaitServing(), 0) << server.standard_error();
    EXPECT_THAT(server.standard_error(), HasSubstr("model a: --max-batch-tokens 1000000000 is more than"));
  }
}

TEST(LifeCycleTest, AnInputThatNeverFitsTheMemoryNamesTheFlag) {
  for (const char* batch : {"1", "1000000000000"}) {
    const std::string model = testing::SourcePath("tests/golden/vision/lit_normal");
    ServerProcess server({"--grpc-port", "0", "--host", "127.0.0.1", "--model", model, "--max-batch-tokens", batch,
                          "--max-input-tokens", "1000000000"});
    EXPECT_EQ(server.AwaitExit(), 5) << server.standard_error();
    EXPECT_THAT(server.standard_error(), HasSubstr("--max-input-tokens 1000000000 is too large"));
  }
}

TEST(LifeCycleTest, TheVersionIsPrinted) {
  ServerProcess server({"--version"});
  EXPECT_EQ(server.AwaitExit(), 0);
  EXPECT_THAT(server.standard_output(), HasSubstr("lion-server 0."));
}

}  // namespace
}  // namespace lion
