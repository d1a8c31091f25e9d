#include "client/cli/bulk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "tests/client/temporary_folder.h"

namespace lion {
namespace {

using ::lion::testing::TemporaryFolder;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

using Answer = absl::StatusOr<std::vector<ImageResult>>;

// The label of an image's only class is the image.
Answer Echo(std::span<const std::string> images) {
  std::vector<ImageResult> results(images.size());
  for (size_t i = 0; i < images.size(); ++i) results[i].scores = {{0, images[i], 1.0f}};
  return results;
}

class Puppet : public Transport {
 public:
  explicit Puppet(std::function<Answer(std::span<const std::string>)> answer) : answer_(std::move(answer)) {}

  Answer Call(std::span<const std::string> images) override {
    {
      const std::lock_guard lock(mutex_);
      sizes_.push_back(images.size());
    }
    return answer_(images);
  }

  std::vector<size_t> sizes() {
    const std::lock_guard lock(mutex_);
    return sizes_;
  }

 private:
  const std::function<Answer(std::span<const std::string>)> answer_;
  std::mutex mutex_;
  std::vector<size_t> sizes_;  // images of each call
};

class BulkTest : public ::testing::Test {
 protected:
  // Files that hold "0", "1" and so on.
  void WriteFiles(int count) {
    for (int i = 0; i < count; ++i) {
      files_.push_back({folder_.Write(std::to_string(i) + ".png", std::to_string(i)), absl::OkStatus()});
    }
  }

  BulkSummary Run(Puppet& puppet) {
    return RunBulk(
        files_, options_, puppet,
        [this](milliseconds wait) {
          const std::lock_guard lock(mutex_);
          waits_ms_.push_back(wait.count());
        },
        [this](size_t index, const ImageResult& result) {
          EXPECT_EQ(index, delivered_.size());
          if (result.ended_run) ++ended_run_;
          delivered_.push_back(result.status.ok() ? result.scores.at(0).label
                                                  : absl::StatusCodeToString(result.status.code()));
          return absl::OkStatus();
        });
  }

  std::vector<std::string> Numbers(int count) {
    std::vector<std::string> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
    return numbers;
  }

  const TemporaryFolder folder_;
  std::vector<InputFile> files_;
  BulkOptions options_;
  std::mutex mutex_;
  std::vector<int64_t> waits_ms_;
  std::vector<std::string> delivered_;
  size_t ended_run_ = 0;
};

TEST_F(BulkTest, NoFilesNoCalls) {
  Puppet puppet(Echo);
  EXPECT_EQ(Run(puppet).failed, 0u);
  EXPECT_TRUE(puppet.sizes().empty());
}

TEST_F(BulkTest, SmallFilesShareCalls) {
  WriteFiles(37);
  options_.max_calls = 1;
  Puppet puppet(Echo);
  EXPECT_EQ(Run(puppet).failed, 0u);
  EXPECT_THAT(puppet.sizes(), ElementsAre(16, 16, 5));
  EXPECT_EQ(delivered_, Numbers(37));
}

TEST_F(BulkTest, LargeFilesFillACallBySize) {
  for (const size_t bytes : {40, 50, 20, 100, 101, 300, 1}) {
    files_.push_back({folder_.Write(std::to_string(files_.size()), std::string(bytes, 'x')), absl::OkStatus()});
  }
  options_.max_calls = 1;
  options_.max_bytes = 100;
  Puppet puppet(Echo);
  Run(puppet);
  EXPECT_THAT(puppet.sizes(), ElementsAre(2, 1, 1, 1, 1, 1));
}

TEST_F(BulkTest, DeliversInOrderWhateverCallEndsFirst) {
  WriteFiles(20);
  options_.max_inputs = 1;
  options_.max_calls = 4;
  std::mutex mutex;
  std::condition_variable changed;
  int finished = 0;
  Puppet puppet([&](std::span<const std::string> images) {
    std::unique_lock lock(mutex);
    // The first call ends after the seven behind it, which is all that may be ahead of it.
    if (images[0] == "0") changed.wait(lock, [&] { return finished == 7; });
    ++finished;
    changed.notify_all();
    return Echo(images);
  });
  EXPECT_EQ(Run(puppet).failed, 0u);
  EXPECT_EQ(delivered_, Numbers(20));
}

TEST_F(BulkTest, ResultsThatWaitForASlowCallAreBounded) {
  WriteFiles(50);
  options_.max_inputs = 1;
  options_.max_calls = 3;
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  Puppet puppet([&](std::span<const std::string> images) {
    std::unique_lock lock(mutex);
    ++calls;
    changed.notify_all();
    if (images[0] == "0") {
      changed.wait(lock, [&] { return calls >= 6; });
      EXPECT_FALSE(changed.wait_for(lock, milliseconds(100), [&] { return calls > 6; }));
    }
    return Echo(images);
  });
  EXPECT_EQ(Run(puppet).failed, 0u);
  EXPECT_EQ(delivered_, Numbers(50));
}

TEST_F(BulkTest, CallsInFlightReachTheLimitAndNoMore) {
  WriteFiles(64);
  options_.max_inputs = 1;
  options_.max_calls = 8;
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0, started = 0, most = 0;
  Puppet puppet([&](std::span<const std::string> images) {
    std::unique_lock lock(mutex);
    most = std::max(most, ++running);
    ++started;
    changed.notify_all();
    changed.wait(lock, [&] { return started >= 8; });
    --running;
    return Echo(images);
  });
  Run(puppet);
  EXPECT_EQ(most, 8);
}

TEST_F(BulkTest, AFileThatCannotBeReadFailsAlone) {
  WriteFiles(2);
  files_.push_back({folder_.Path("gone.png"), absl::OkStatus()});
  files_.push_back({"*.webp", absl::NotFoundError("no file matches")});
  WriteFiles(1);
  Puppet puppet(Echo);
  const BulkSummary summary = Run(puppet);
  EXPECT_EQ(summary.failed, 2u);
  EXPECT_TRUE(summary.stopped.ok());
  EXPECT_THAT(delivered_, ElementsAre("0", "1", "NOT_FOUND", "NOT_FOUND", "0"));
  EXPECT_EQ(ended_run_, 0u);
  EXPECT_THAT(puppet.sizes(), ElementsAre(3));
}

TEST_F(BulkTest, AnInputRefusedInItsOwnResultFailsAlone) {
  WriteFiles(4);
  Puppet puppet([](std::span<const std::string> images) {
    Answer answer = Echo(images);
    (*answer)[2].status = absl::InvalidArgumentError("truncated");
    return answer;
  });
  EXPECT_EQ(Run(puppet).failed, 1u);
  EXPECT_THAT(delivered_, ElementsAre("0", "1", "INVALID_ARGUMENT", "3"));
}

TEST_F(BulkTest, ACallRefusedAsAWholeIsSentInParts) {
  for (const absl::Status& refusal :
       {absl::InvalidArgumentError("over the limit"), absl::ResourceExhaustedError("message larger than max")}) {
    files_.clear();
    delivered_.clear();
    WriteFiles(11);
    Puppet puppet([&](std::span<const std::string> images) {
      for (const std::string& image : images) {
        if (image == "5") return Answer(refusal);
      }
      return Echo(images);
    });
    const BulkSummary summary = Run(puppet);
    EXPECT_EQ(summary.failed, 1u);
    std::vector<std::string> want = Numbers(11);
    want[5] = absl::StatusCodeToString(refusal.code());
    EXPECT_EQ(delivered_, want);
    EXPECT_LE(puppet.sizes().size(), 9u);  // by halves: twice the logarithm
  }
}

TEST_F(BulkTest, AFullQueueIsWaitedOut) {
  WriteFiles(3);
  int calls = 0;
  Puppet puppet([&](std::span<const std::string> images) {
    if (++calls > 2) return Echo(images);
    absl::Status busy = absl::ResourceExhaustedError("the queue is full");
    busy.SetPayload("lion.v1/grpc-retry-pushback-ms", absl::Cord(calls == 1 ? "700" : "900"));
    return Answer(busy);
  });
  EXPECT_EQ(Run(puppet).failed, 0u);
  EXPECT_THAT(waits_ms_, ElementsAre(700, 900));
  EXPECT_THAT(delivered_, ElementsAre("0", "1", "2"));
}

TEST_F(BulkTest, AQueueThatStaysFullFailsItsFilesOnly) {
  WriteFiles(4);
  options_.max_inputs = 2;
  options_.max_calls = 1;
  options_.retry.busy_attempts = 3;
  Puppet puppet([&](std::span<const std::string> images) {
    if (images[0] != "0") return Echo(images);
    absl::Status busy = absl::ResourceExhaustedError("the queue is full");
    busy.SetPayload("lion.v1/grpc-retry-pushback-ms", absl::Cord("1"));
    return Answer(busy);
  });
  EXPECT_EQ(Run(puppet).failed, 2u);
  EXPECT_EQ(waits_ms_.size(), 2u);
  EXPECT_THAT(delivered_, ElementsAre("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "2", "3"));
}

TEST_F(BulkTest, AServerThatStaysAwayEndsTheRun) {
  WriteFiles(1000);
  options_.retry.unavailable_attempts = 3;
  options_.max_calls = 1;
  Puppet puppet([&](std::span<const std::string> images) {
    return images[0] == "0" ? Echo(images) : Answer(absl::UnavailableError("gone"));
  });
  const BulkSummary summary = Run(puppet);
  EXPECT_EQ(summary.stopped, absl::UnavailableError("gone"));
  EXPECT_EQ(summary.failed, 1000u - 16u);
  EXPECT_EQ(summary.not_sent, 1000u - 32u);
  EXPECT_EQ(puppet.sizes().size(), 4u);
  ASSERT_EQ(delivered_.size(), 1000u);
  EXPECT_EQ(delivered_[15], "15");
  EXPECT_EQ(delivered_[999], "UNAVAILABLE");
  EXPECT_EQ(ended_run_, 1000u - 16u);
}

TEST_F(BulkTest, AnErrorOfOneCallDoesNotEndTheRun) {
  WriteFiles(48);
  Puppet puppet([&](std::span<const std::string> images) {
    return images[0] == "16" ? Answer(absl::InternalError("fault")) : Echo(images);
  });
  const BulkSummary summary = Run(puppet);
  EXPECT_EQ(summary.failed, 16u);
  EXPECT_EQ(summary.not_sent, 0u);
  EXPECT_TRUE(summary.stopped.ok());
  EXPECT_EQ(puppet.sizes().size(), 3u);
  EXPECT_TRUE(waits_ms_.empty());
}

TEST_F(BulkTest, AnAnswerOfTheWrongLengthIsAnError) {
  WriteFiles(2);
  Puppet puppet([](std::span<const std::string> images) { return Echo(images.first(1)); });
  EXPECT_EQ(Run(puppet).failed, 2u);
  EXPECT_THAT(delivered_, ElementsAre("INTERNAL", "INTERNAL"));
}

TEST_F(BulkTest, WhenResultsCannotBeWrittenTheRunEnds) {
  WriteFiles(1000);
  options_.max_calls = 1;
  Puppet puppet(Echo);
  int deliveries = 0;
  const BulkSummary summary = RunBulk(
      files_, options_, puppet, [](milliseconds) {},
      [&](size_t, const ImageResult&) {
        return ++deliveries == 3 ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
      });
  EXPECT_EQ(summary.delivery, absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(deliveries, 3);
  EXPECT_LT(puppet.sizes().size(), 10u);
}

}  // namespace
}  // namespace lion
