// `lion classify`, `embed` and `similar`.
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
using ::lion::testing::Outcome;
using ::lion::testing::ReadFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
  EXPECT_EQ(streams_, 1);

  handlers_.classify_stream = nullptr;  // an older server
  const Outcome without = Run("classify many");
  EXPECT_EQ(without.exit_status, 0) << without.err;
  EXPECT_EQ(without.out, want);
  EXPECT_EQ(without.err, "");
  EXPECT_EQ(calls_, 2 * 63);
}

TEST_F(CommandLineTest, OnlyManyFilesTakeAStream) {
  for (int i = 0; i < 17; ++i) folder_.Write(absl::StrCat("d/", i, ".png"), "7");
  EXPECT_EQ(Run("classify d/1.png d/2.png").exit_status, 0);
  EXPECT_EQ(Run("similar d/1.png d/2.png").exit_status, 0);
  EXPECT_EQ(Run("embed d --pooling none").exit_status, 0);
  EXPECT_EQ(streams_, 0);
  EXPECT_EQ(Run("embed d --timeout-ms 70000").exit_status, 0);
  EXPECT_EQ(streams_, 1);
  EXPECT_EQ(last_embed_.options().timeout_ms(), 70'000u);
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

}  // namespace
}  // namespace lion
