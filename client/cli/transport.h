// What a call brings back for one input, and who makes calls: the boundary that tests put a puppet behind.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lion/v1/lion.pb.h"

namespace lion {

struct ClassScore {
  uint32_t index = 0;
  std::string label;
  float score = 0;  // probability, logit, or the value of a regression head
};

// Of the kinds of results one is there, by what was called; none where `status` is not OK.
struct InputResult {
  absl::Status status;
  bool ended_run = false;          // set by RunBulk: `status` is why no further call was made
  std::vector<ClassScore> scores;  // highest first
  std::vector<float> embedding;    // [rows, dimensions], row-major
  int64_t rows = 0;
  int64_t dimensions = 0;
  v1::FilledMasks filled;
  v1::TokenizedInput tokenized;
  int64_t tokens = 0;  // not of tokenizing
  bool truncated = false;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // One result per input, in order, or the error of the whole call. Called from any thread, several at once.
  virtual absl::StatusOr<std::vector<InputResult>> Call(std::span<const v1::Input> inputs) = 0;
};

}  // namespace lion
