#include "client/cli/bulk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "absl/strings/cord.h"
#include "tests/client/bulk_fixture.h"

namespace lion {
namespace {

using ::lion::testing::Answer;
using ::lion::testing::BulkTest;
using ::lion::testing::Echo;
using ::lion::testing::Puppet;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

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
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    std::unique_lock lock(mutex);
    // The first call ends after the seven behind it, which is all that may be ahead of it.
    if (inputs[0].image() == "0") changed.wait(lock, [&] { return finished == 7; });
    ++finished;
    changed.notify_all();
    return Echo(inputs);
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
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    std::unique_lock lock(mutex);
    ++calls;
    changed.notify_all();
    if (inputs[0].image() == "0") {
      changed.wait(lock, [&] { return calls >= 6; });
      EXPECT_FALSE(changed.wait_for(lock, milliseconds(100), [&] { return calls > 6; }));
    }
    return Echo(inputs);
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
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    std::unique_lock lock(mutex);
    most = std::max(most, ++running);
    ++started;
    changed.notify_all();
    changed.wait(lock, [&] { return started >= 8; });
    --running;
    return Echo(inputs);
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
  Puppet puppet([](std::span<const v1::Input> inputs) {
    Answer answer = Echo(inputs);
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
    Puppet puppet([&](std::span<const v1::Input> inputs) {
      for (const v1::Input& input : inputs) {
        if (input.image() == "5") return Answer(refusal);
      }
      return Echo(inputs);
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
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    if (++calls > 2) return Echo(inputs);
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
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    if (inputs[0].image() != "0") return Echo(inputs);
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
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    return inputs[0].image() == "0" ? Echo(inputs) : Answer(absl::UnavailableError("gone"));
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
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    return inputs[0].image() == "16" ? Answer(absl::InternalError("fault")) : Echo(inputs);
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
  Puppet puppet([](std::span<const v1::Input> inputs) { return Echo(inputs.first(1)); });
  EXPECT_EQ(Run(puppet).failed, 2u);
  EXPECT_THAT(delivered_, ElementsAre("INTERNAL", "INTERNAL"));
}

TEST_F(BulkTest, WhenResultsCannotBeWrittenTheRunEnds) {
  WriteFiles(1000);
  options_.max_calls = 1;
  Puppet puppet(Echo);
  int deliveries = 0;
  InputSource source({.images = files_});
  const BulkSummary summary = RunBulk(
      source, options_, puppet, [](milliseconds) {},
      [&](const BulkInput&, const InputResult&) {
        return ++deliveries == 3 ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
      });
  EXPECT_EQ(summary.delivery, absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(deliveries, 3);
  EXPECT_LT(puppet.sizes().size(), 10u);
}

}  // namespace
}  // namespace lion
