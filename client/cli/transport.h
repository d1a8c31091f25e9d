// What a call brings back for one image, and who makes calls: the boundary that tests put a puppet behind.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lion {

struct ClassScore {
  uint32_t index = 0;
  std::string label;
  float score = 0;  // probability, logit, or the value of a regression head
};

struct ImageResult {
  absl::Status status;             // not OK: the scores and the embedding are empty
  bool ended_run = false;          // set by RunBulk: `status` is why no further call was made
  std::vector<ClassScore> scores;  // highest first; empty from an embedding call
  std::vector<float> embedding;    // [rows, dimensions], row-major; empty from a classification call
  int64_t rows = 0;
  int64_t dimensions = 0;
  int64_t tokens = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // `images`: encoded files. One result per image, in order, or the error of the whole call. Called from any thread,
  // several at once.
  virtual absl::StatusOr<std::vector<ImageResult>> Call(std::span<const std::string> images) = 0;
};

}  // namespace lion
