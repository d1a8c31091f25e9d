// RunBulk with the lines of text files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/client/bulk_fixture.h"

namespace lion {
namespace {

using ::lion::testing::Answer;
using ::lion::testing::BulkTest;
using ::lion::testing::Echo;
using ::lion::testing::Puppet;
using ::testing::ElementsAre;

TEST_F(BulkTest, LinesOfFilesShareCallsWithImages) {
  WriteFiles(2);
  text_files_ = {folder_.Write("lines.txt", "two\nthree\n\xff\nfive\n")};
  Puppet puppet(Echo);
  const BulkSummary summary = Run(puppet);
  EXPECT_EQ(summary.inputs, 6u);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_THAT(puppet.sizes(), ElementsAre(5));
  EXPECT_THAT(delivered_, ElementsAre("0", "1", "two", "three", "INVALID_ARGUMENT", "five"));
}

// Every line comes once and in its place, whichever of the workers reads and sends it.
TEST_F(BulkTest, AFileOfManyLinesIsDeliveredInOrder) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += std::to_string(i) + "\n";
  text_files_ = {folder_.Write("lines.txt", lines)};
  options_.max_inputs = 3;
  Puppet puppet(Echo);
  EXPECT_EQ(Run(puppet).inputs, 5000u);
  EXPECT_EQ(delivered_, Numbers(5000));
  EXPECT_EQ(puppet.sizes().size(), 1667u);
}

TEST_F(BulkTest, LinesFillACallBySize) {
  text_files_ = {folder_.Write("lines.txt", std::string(60, 'a') + "\n" + std::string(60, 'b') + "\nc\n")};
  options_.max_calls = 1;
  options_.max_bytes = 100;
  Puppet puppet(Echo);
  Run(puppet);
  EXPECT_THAT(puppet.sizes(), ElementsAre(1, 2));
  EXPECT_THAT(delivered_, ElementsAre(std::string(60, 'a'), std::string(60, 'b'), "c"));
}

// The pipe stays open, and what was written to it is answered all the same.
TEST_F(BulkTest, WhatAPipeHoldsIsSentBeforeMoreIsWritten) {
  const std::string path = folder_.Path("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  text_files_ = {path};
  std::mutex mutex;
  std::condition_variable changed;
  bool answered = false;
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    const std::lock_guard lock(mutex);
    answered = true;
    changed.notify_all();
    return Echo(inputs);
  });
  std::thread writer([&] {
    std::ofstream pipe(path);
    pipe << "first\n" << std::flush;
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return answered; }));
    pipe << "second\n";
  });
  EXPECT_EQ(Run(puppet).failed, 0u);
  writer.join();
  EXPECT_THAT(puppet.sizes(), ElementsAre(1, 1));
  EXPECT_THAT(delivered_, ElementsAre("first", "second"));
}

TEST_F(BulkTest, WhenTheServerStaysAwayFilesAreNotReadToTheirEnd) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += std::to_string(i) + "\n";
  text_files_ = {folder_.Write("lines.txt", lines)};
  options_.retry.unavailable_attempts = 1;
  options_.max_calls = 1;
  Puppet puppet([&](std::span<const v1::Input> inputs) {
    return inputs[0].text() == "0" ? Echo(inputs) : Answer(absl::UnavailableError("gone"));
  });
  const BulkSummary summary = Run(puppet);
  EXPECT_EQ(summary.stopped, absl::UnavailableError("gone"));
  EXPECT_TRUE(summary.not_read);
  EXPECT_EQ(summary.inputs, 32u);
  EXPECT_EQ(summary.failed, 16u);
  EXPECT_EQ(summary.not_sent, 0u);
  EXPECT_EQ(delivered_.size(), 32u);
}

}  // namespace
}  // namespace lion
