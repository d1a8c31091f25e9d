// RunBulk, with a puppet in the server's place.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/bulk.h"
#include "tests/client/temporary_folder.h"

namespace lion::testing {

using Answer = absl::StatusOr<std::vector<InputResult>>;

// The label of an input's only class is the input.
inline Answer Echo(std::span<const v1::Input> inputs) {
  std::vector<InputResult> results(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    results[i].scores = {{0, inputs[i].has_text() ? inputs[i].text() : inputs[i].image(), 1.0f}};
  return results;
}

class Puppet : public Transport {
 public:
  explicit Puppet(std::function<Answer(std::span<const v1::Input>)> answer) : answer_(std::move(answer)) {}

  Answer Call(std::span<const v1::Input> inputs) override {
    {
      const std::lock_guard lock(mutex_);
      sizes_.push_back(inputs.size());
    }
    return answer_(inputs);
  }

  std::vector<size_t> sizes() {
    const std::lock_guard lock(mutex_);
    return sizes_;
  }

 private:
  const std::function<Answer(std::span<const v1::Input>)> answer_;
  std::mutex mutex_;
  std::vector<size_t> sizes_;  // inputs of each call
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
    InputSource source({.images = files_, .text_files = text_files_});
    return RunBulk(
        source, options_, puppet,
        [this](std::chrono::milliseconds wait) {
          const std::lock_guard lock(mutex_);
          waits_ms_.push_back(wait.count());
        },
        [this](const BulkInput& input, const InputResult& result) {
          EXPECT_EQ(input.index, delivered_.size());
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
  std::vector<std::string> text_files_;
  BulkOptions options_;
  std::mutex mutex_;
  std::vector<int64_t> waits_ms_;
  std::vector<std::string> delivered_;
  size_t ended_run_ = 0;
};

}  // namespace lion::testing
