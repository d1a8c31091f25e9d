// Runs the built `lion` program against a fake server.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/fake_server.h"
#include "tests/client/temporary_folder.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::lion::testing::FakeHandlers;
using ::lion::testing::FakeServer;
using ::lion::testing::ReadFile;
using ::lion::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int exit_status = -1;
  std::string out;
  std::string err;
};

// An "image" holds its class, a digit; others are bad.
class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    handlers_.classify = [this](grpc::ServerContext&, const v1::ClassifyRequest& request,
                                v1::ClassifyResponse& response) {
      ++calls_;
      last_classify_ = request;
      for (const v1::Input& input : request.inputs()) {
        auto* result = response.add_results();
        if (!IsGood(input.image())) {
          SetError(*result->mutable_error());
          continue;
        }
        result->set_tokens(50);
        auto* score = result->mutable_classification()->add_scores();
        score->set_index(input.image()[0] - '0');
        score->set_label(input.image());
        score->set_score(0.75f);
      }
      return grpc::Status::OK;
    };
    handlers_.embed = [this](grpc::ServerContext&, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
      last_embed_ = request;
      for (const v1::Input& input : request.inputs()) {
        auto* result = response.add_results();
        if (!IsGood(input.image())) {
          SetError(*result->mutable_error());
          continue;
        }
        const float values[2] = {static_cast<float>(input.image()[0] - '0'), 1.0f};
        result->set_tokens(50);
        result->mutable_embedding()->set_rows(1);
        result->mutable_embedding()->set_dimensions(2);
        result->mutable_embedding()->set_data(values, sizeof(values));
      }
      return grpc::Status::OK;
    };
    server_ = std::make_unique<FakeServer>(&handlers_);
  }

  static bool IsGood(const std::string& image) { return image.size() == 1 && image[0] >= '0' && image[0] <= '9'; }
  static void SetError(v1::Error& error) {
    error.set_code(3);
    error.set_message("no image");
  }

  // `arguments` go through a shell, in the temporary folder.
  Outcome Run(const std::string& arguments, const std::string& input = "") {
    const std::string stdin_path = folder_.Write("io/stdin", input);
    folder_.Write("io/stdout", "");
    const std::string command = absl::StrCat("cd '", folder_.Path(""), "' && ", limit_,
                                             " LION_SERVER=", server_ ? server_->address() : address_, " '",
                                             LION_BINARY, "' ", arguments, " <io/stdin >", output_, " 2>io/stderr");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(folder_.Path("io/stdout")),
            ReadFile(folder_.Path("io/stderr"))};
  }

  const TemporaryFolder folder_;
  std::string output_ = "io/stdout";
  std::string limit_;  // a shell command that ends in &&
  FakeHandlers handlers_;
  std::atomic<int> calls_ = 0;
  v1::ClassifyRequest last_classify_;
  v1::EmbedRequest last_embed_;
  std::string address_;
  std::unique_ptr<FakeServer> server_;
};

TEST_F(CommandLineTest, ClassifyPrintsATableAndTheErrorsApart) {
  folder_.Write("d/7.png", "7");
  folder_.Write("d/bad.png", "not a digit");
  folder_.Write("d/1.png", "1");
  const Outcome outcome = Run("classify d gone.png d/1.png");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out,
            "d/1.png   1  75.0 %\n"
            "d/7.png   7  75.0 %\n"
            "d/1.png   1  75.0 %\n");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("lion: d/bad.png: INVALID_ARGUMENT: no image\n"),
                                 HasSubstr("lion: gone.png: NOT_FOUND: cannot open the file")));
  EXPECT_EQ(calls_, 1);
}

TEST_F(CommandLineTest, ClassifyJsonHasALinePerFile) {
  folder_.Write("7.png", "7");
  folder_.Write("bad.png", "x");
  const Outcome outcome = Run("classify --json bad.png 7.png");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out,
            "{\"file\":\"bad.png\",\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"no image\"}}\n"
            "{\"file\":\"7.png\",\"scores\":[{\"index\":7,\"label\":\"7\",\"score\":0.75}],\"tokens\":50}\n");
  EXPECT_EQ(Run("classify --json 7.png").exit_status, 0);
}

TEST_F(CommandLineTest, FlagsReachTheRequest) {
  folder_.Write("7.png", "7");
  ASSERT_EQ(Run("classify 7.png --top-k 3 --raw-scores --model m --resize long_side --size 448 --no-exif "
                "--allow-truncated")
                .exit_status,
            0);
  EXPECT_EQ(last_classify_.model(), "m");
  EXPECT_EQ(last_classify_.top_k(), 3u);
  EXPECT_TRUE(last_classify_.raw_scores());
  const v1::ImageOptions& image = last_classify_.options().image();
  EXPECT_EQ(image.resize(), v1::ImageOptions::RESIZE_LONG_SIDE);
  EXPECT_EQ(image.size(), 448u);
  EXPECT_TRUE(image.has_apply_exif_orientation() && !image.apply_exif_orientation());
  EXPECT_TRUE(image.allow_truncated());
  EXPECT_TRUE(last_classify_.options().partial_results());

  ASSERT_EQ(Run("embed 7.png --pooling max --normalize --dimensions 2").exit_status, 0);
  EXPECT_EQ(last_embed_.pooling(), v1::POOLING_MAX);
  EXPECT_TRUE(last_embed_.normalize());
  EXPECT_EQ(last_embed_.dimensions(), 2u);
  EXPECT_TRUE(last_embed_.packed_bytes());

  ASSERT_EQ(Run("embed 7.png").exit_status, 0);
  EXPECT_FALSE(last_embed_.has_normalize());
  EXPECT_FALSE(last_embed_.options().image().has_apply_exif_orientation());
  EXPECT_EQ(last_embed_.options().image().resize(), v1::ImageOptions::RESIZE_UNSPECIFIED);
}

TEST_F(CommandLineTest, AFileNamedLikeACommandIsAFile) {
  folder_.Write("models", "4");
  const Outcome outcome = Run("classify models");
  EXPECT_EQ(outcome.out, "models   4  75.0 %\n");
}

TEST_F(CommandLineTest, EmbedWritesNpyWithoutTheRowsThatFailed) {
  for (const char* digit : {"1", "2", "3"}) folder_.Write(absl::StrCat("d/", digit, ".png"), digit);
  folder_.Write("d/2.png", "broken");
  const Outcome outcome = Run("embed d --output v.npy");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("d/2.png: INVALID_ARGUMENT: no image"),
                                 HasSubstr("v.npy has 2 rows for 3 files"), HasSubstr(".jsonl")));
  const std::string npy = ReadFile(folder_.Path("v.npy"));
  ASSERT_EQ(npy.size(), 128u + 2 * 2 * 4);
  EXPECT_THAT(npy, HasSubstr("'shape': (2, 2)"));
  const float want[4] = {1, 1, 3, 1};
  EXPECT_EQ(npy.substr(128), std::string(reinterpret_cast<const char*>(want), sizeof(want)));
}

TEST_F(CommandLineTest, EmbedReadsAListAndPrintsJsonLines) {
  folder_.Write("2.png", "2");
  folder_.Write("1.png", "1");
  const Outcome outcome = Run("embed -", "2.png\n1.png\n");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "{\"file\":\"2.png\",\"embedding\":[2,1],\"tokens\":50}\n"
            "{\"file\":\"1.png\",\"embedding\":[1,1],\"tokens\":50}\n");
}

TEST_F(CommandLineTest, EmbedRefusesOutputsThatCannotHoldTheResult) {
  folder_.Write("1.png", "1");
  Outcome outcome = Run("embed 1.png --pooling none --output v.npy");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr(".jsonl"));
  outcome = Run("embed 1.png --output v.csv");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("expected a name that ends in .npy or .jsonl"));
}

TEST_F(CommandLineTest, SimilarPrintsTheCosine) {
  folder_.Write("1.png", "1");
  folder_.Write("7.png", "7");
  EXPECT_EQ(Run("similar 1.png 1.png").out, "1.000000\n");
  EXPECT_EQ(Run("similar 1.png 7.png").out, "0.800000\n");
  EXPECT_EQ(Run("similar --json 1.png 7.png").out, "{\"a\":\"1.png\",\"b\":\"7.png\",\"cosine\":0.8}\n");
  EXPECT_EQ(Run("similar 1.png").exit_status, 2);
  EXPECT_EQ(Run("similar 1.png gone.png").exit_status, 1);
}

TEST_F(CommandLineTest, ManyFilesGoInOrderThroughFewCalls) {
  std::string want;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = absl::StrCat("many/", 1000 + i, ".png");
    folder_.Write(name, std::to_string(i % 10));
    absl::StrAppend(&want, name, "   ", i % 10, "  75.0 %\n");
  }
  // The requests arrive on many threads here: the recording of the other tests is left out.
  handlers_.classify = [this](grpc::ServerContext&, const v1::ClassifyRequest& request,
                              v1::ClassifyResponse& response) {
    ++calls_;
    for (const v1::Input& input : request.inputs()) {
      auto* score = response.add_results()->mutable_classification()->add_scores();
      score->set_label(input.image());
      score->set_score(0.75f);
    }
    return grpc::Status::OK;
  };
  const Outcome outcome = Run("classify many");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, want);
  EXPECT_EQ(calls_, 63);
}

TEST_F(CommandLineTest, AFullQueueIsTriedAgain) {
  folder_.Write("7.png", "7");
  const auto answer = handlers_.classify;
  std::atomic<int> refused = 0;
  handlers_.classify = [&](grpc::ServerContext& context, const v1::ClassifyRequest& request,
                           v1::ClassifyResponse& response) {
    if (refused < 2) {
      ++refused;
      context.AddTrailingMetadata("grpc-retry-pushback-ms", "20");
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
    }
    return answer(context, request, response);
  };
  const Outcome outcome = Run("classify 7.png");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "7.png   7  75.0 %\n");
  EXPECT_EQ(refused, 2);
}

TEST_F(CommandLineTest, AnErrorThatMeetsEveryCallIsToldOnce) {
  for (int i = 0; i < 1000; ++i) folder_.Write(absl::StrCat("many/", i, ".png"), "1");
  handlers_.classify = [](grpc::ServerContext&, const v1::ClassifyRequest&, v1::ClassifyResponse&) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no model \"x\"; there is: digits");
  };
  const Outcome outcome = Run("classify many --model x");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, StartsWith("lion: NOT_FOUND: no model \"x\"; there is: digits\nlion: stopped: "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
}

TEST_F(CommandLineTest, NoServerIsSaidPlainly) {
  address_ = server_->address();
  server_.reset();
  folder_.Write("7.png", "7");
  for (const char* command : {"classify 7.png", "models", "health", "similar 7.png 7.png"}) {
    const Outcome outcome = Run(command);
    EXPECT_EQ(outcome.exit_status, 1) << command;
    EXPECT_THAT(outcome.err, StartsWith(absl::StrCat("lion: cannot connect to ", address_, ": is the server running?")))
        << command;
  }
}

TEST_F(CommandLineTest, TheFlagOutranksTheEnvironment) {
  const Outcome outcome = Run("health --server 127.0.0.1:1");
  EXPECT_THAT(outcome.err, HasSubstr("cannot connect to 127.0.0.1:1"));
}

TEST_F(CommandLineTest, ATimeoutIsKept) {
  folder_.Write("7.png", "7");
  handlers_.classify = [](grpc::ServerContext& context, const v1::ClassifyRequest&, v1::ClassifyResponse&) {
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  const Outcome outcome = Run("classify 7.png --timeout-ms 100");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("7.png: DEADLINE_EXCEEDED"), HasSubstr("--timeout-ms")));
}

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
  const std::string commands = "classify embed similar models health inspect\n";
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
