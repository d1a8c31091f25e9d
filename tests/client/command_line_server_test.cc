// `lion models`, `health` and `inspect`, and what every command does with output, lists and wrong flags.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/client/command_line.h"

namespace lion {
namespace {

using ::lion::testing::CommandLineTest;
using ::lion::testing::FakeServer;
using ::lion::testing::Outcome;
using ::lion::testing::ReadFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(CommandLineTest, ModelsAreListed) {
  handlers_.list_models = [](v1::ListModelsResponse& response) {
    auto* model = response.add_models();
    model->set_name("digits");
    model->set_version("1");
    model->set_modality(v1::Model::MODALITY_VISION);
    model->set_variant("LION-S");
    model->set_parameters(5'526'346);
    model->set_embedding_dimensions(192);
    model->set_device("cpu");
    model->set_weights("m.pth (ema)");
    return grpc::Status::OK;
  };
  const Outcome outcome = Run("models");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  const std::vector<std::string> lines = absl::StrSplit(outcome.out, '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], StartsWith("NAME    VERSION  MODALITY"));
  EXPECT_THAT(lines[1], AllOf(StartsWith("digits        1  vision"), HasSubstr("LION-S"), HasSubstr("5.5 M"),
                              HasSubstr("192"), HasSubstr("m.pth (ema)")));
  EXPECT_THAT(Run("models --json").out, StartsWith("{\"name\":\"digits\",\"version\":\"1\",\"modality\":\"vision\""));
}

TEST_F(CommandLineTest, HealthIsTheExitStatus) {
  using grpc::health::v1::HealthCheckResponse;
  Outcome outcome = Run("health");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.out, "SERVING\n");
  handlers_.health = HealthCheckResponse::NOT_SERVING;
  outcome = Run("health --wait 0.3");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out, "NOT_SERVING\n");
}

TEST_F(CommandLineTest, HealthWaitsForAServerThatIsYetToCome) {
  address_ = server_->address();
  const int port = server_->port();
  server_.reset();
  std::thread starter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    server_ = std::make_unique<FakeServer>(&handlers_, port);
  });
  const std::string flags = absl::StrCat("health --wait 20 --server ", address_);
  folder_.Write("io/x", "");
  const int status = std::system(absl::StrCat("'", LION_BINARY, "' ", flags, " >/dev/null").c_str());
  starter.join();
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(CommandLineTest, AFullDiskUnderStandardOutputIsAnError) {
  folder_.Write("1.png", "1");
  handlers_.list_models = [](v1::ListModelsResponse& response) {
    response.add_models()->set_name("digits");
    return grpc::Status::OK;
  };
  const std::string checkpoint = testing::SourcePath("tests/golden/vision/plain_state_dict_headless");
  const std::string inspect =
      "inspect " + testing::SourcePath("tests/golden/vision/plain_state_dict_headless/checkpoint.pth");
  const std::string commands[] = {
      "models",         "models --json", "health", "similar 1.png 1.png", inspect,    "similar --json 1.png 1.png",
      "classify 1.png", "embed 1.png",   "--help", "classify --help",     "--version"};
  for (const std::string& command : commands) {
    output_ = "io/stdout";
    ASSERT_EQ(Run(command).exit_status, 0) << command;
    output_ = "/dev/full";
    const Outcome outcome = Run(command);
    EXPECT_EQ(outcome.exit_status, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("cannot write standard output")) << command;
  }
}

TEST_F(CommandLineTest, AFileSizeLimitIsAnErrorLikeAFullDisk) {
  std::string arguments = "embed --output v.jsonl";
  for (int i = 0; i < 40; ++i) {
    folder_.Write("1.png", "1");
    arguments += " 1.png";
  }
  limit_ = "ulimit -f 1 &&";  // 512 or 1024 bytes
  const Outcome outcome = Run(arguments);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write v.jsonl: File too large"));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("v.jsonl")));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("v.jsonl.part")));
}

TEST_F(CommandLineTest, APipeAmongTheFilesFailsAlone) {
  folder_.Write("d/7.png", "7");
  ASSERT_EQ(::mkfifo(folder_.Path("d/pipe.png").c_str(), 0600), 0);
  const Outcome outcome = Run("classify d");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out, "d/7.png   7  75.0 %\n");
  EXPECT_EQ(outcome.err, "lion: d/pipe.png: INVALID_ARGUMENT: it is a pipe, expected a regular file\n");
}

TEST_F(CommandLineTest, AnEmptyListIsAnError) {
  for (const char* command : {"classify -", "embed -"}) {
    const Outcome outcome = Run(command, "\n");
    EXPECT_EQ(outcome.exit_status, 1) << command;
    EXPECT_EQ(outcome.err, "lion: -: NOT_FOUND: the list on standard input names no file\n") << command;
  }
}

TEST_F(CommandLineTest, UsageErrorsSayWhatIsAccepted) {
  const std::string commands = "classify embed fill-mask tokenize similar models health inspect bench\n";
  EXPECT_THAT(Run("bogus").err, StartsWith("lion: \"bogus\" is no command; there are: " + commands));
  EXPECT_THAT(Run("").err, StartsWith("lion: no command is given; there are: " + commands));
  // CLI11's versions differ in how they write a range.
  const std::pair<const char*, const char*> refused[] = {
      {"classify x --size 0", "--size: Value 0 not in range .?1 .+ 4294967295"},
      {"models --timeout-ms -1", "--timeout-ms: Value -1 not in range .?0 .+ 1000000000000"},
      {"inspect x --heads 0", "--heads: Value 0 not in range .?1 .+ 9223372036854775807"},
      {"health --wait nan", "--wait: nan is not from 0 to 1000000"},
      {"health --wait -1", "--wait: -1 is not from 0 to 1000000"},
      {"health --wait inf", "--wait: inf is not from 0 to 1000000"}};
  for (const auto& [command, message] : refused) {
    const Outcome outcome = Run(command);
    EXPECT_EQ(outcome.exit_status, 2) << command;
    EXPECT_THAT(outcome.err, ::testing::ContainsRegex(absl::StrCat("^", message, "]?\n"))) << command;
  }
}

TEST_F(CommandLineTest, UsageErrorsAreTwo) {
  EXPECT_EQ(Run("").exit_status, 2);
  EXPECT_EQ(Run("classify").exit_status, 2);
  EXPECT_EQ(Run("classify x --resize sideways").exit_status, 2);
  EXPECT_EQ(Run("nonsense").exit_status, 2);
  EXPECT_EQ(Run("--help").exit_status, 0);
  const Outcome version = Run("--version");
  EXPECT_EQ(version.exit_status, 0);
  EXPECT_THAT(version.out, ::testing::MatchesRegex("lion [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

// As the loader's own remedies name them, and as checkpoints spell them.
TEST_F(CommandLineTest, InspectTakesEveryNameOfTheArchitecture) {
  for (const char* flags :
       {"--mask-type lit", "--mask-type d", "--mask-type s", "--mask-type softmax", "--mask-type Decay",
        "--mask-type SELECTIVE", "--mask-type nova-inputdep", "--mask-type LION-S", "--order normal", "--order S",
        "--pooling mean", "--pooling cls", "--pooling Pooler", "--weights EMA"}) {
    EXPECT_EQ(Run(absl::StrCat("inspect gone.pth ", flags)).exit_status, 1) << flags;  // and not 2
  }
  const Outcome outcome = Run("inspect gone.pth --mask-type litt");
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--mask-type: \"litt\" is none of lit|d|s|softmax"));
  EXPECT_EQ(Run("inspect gone.pth --order x").exit_status, 2);
  EXPECT_EQ(Run("inspect gone.pth --pooling x").exit_status, 2);
  EXPECT_EQ(Run("inspect gone.pth --weights 1").exit_status, 2);
}

// Without its config.json this checkpoint does not tell LION-LIT from softmax.
TEST_F(CommandLineTest, InspectSettlesAValueByTheFlagThatItsErrorNames) {
  const std::string folder = "tests/golden/text/softmax_bert_mlm/";
  for (const char* name : {"model.safetensors", "vocab.txt"}) {
    folder_.Write(absl::StrCat("m/", name), ReadFile(testing::SourcePath(folder + name)));
  }
  const Outcome unsaid = Run("inspect m");
  EXPECT_EQ(unsaid.exit_status, 1);
  EXPECT_THAT(unsaid.out, AllOf(HasSubstr("give --mask-type lit|d|s|softmax"), HasSubstr("give --heads")));
  for (const auto& [name, shown] : {std::pair("lit", "LION-LIT"), std::pair("softmax", "softmax")}) {
    const Outcome said = Run(absl::StrCat("inspect m --heads 4 --mask-type ", name));
    EXPECT_EQ(said.exit_status, 0) << said.out;
    EXPECT_THAT(said.out, ::testing::ContainsRegex(absl::StrCat("mask type +", shown, " +from --mask-type")));
  }
  const Outcome wrong = Run("inspect m --heads 4 --mask-type d");
  EXPECT_EQ(wrong.exit_status, 1);
  EXPECT_THAT(wrong.out, HasSubstr("--mask-type says LION-D, but there are no tensors ai or Wa_i"));
}

TEST_F(CommandLineTest, InspectReportsAMissingCheckpoint) {
  const Outcome outcome = Run("inspect no/such/file.pth");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("no/such/file.pth"));
}

}  // namespace
}  // namespace lion
