// Text models and batches of texts for tests of the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace lion::testing {

// The instruction set in LION_TEST_ISA, "auto" when unset.
std::string Isa();

// tests/golden/text/NAME; fails the process where it cannot be loaded.
LoadedModel LoadText(const std::string& name);

// The same model without its position embeddings: a text may have any length then.
LoadedModel WithoutPositions(LoadedModel model);

// Another float32 tensor in the place of one of the model's while it lives.
class ReplacedTensor {
 public:
  explicit ReplacedTensor(TensorView& view);  // begins with the same values
  ~ReplacedTensor() { view_ = before_; }
  ReplacedTensor(const ReplacedTensor&) = delete;
  ReplacedTensor& operator=(const ReplacedTensor&) = delete;
  std::vector<float>& values() { return values_; }  // row-major; of fixed size

 private:
  TensorView& view_;
  const TensorView before_;
  std::vector<float> values_;
};

// With the instruction set of Isa(), and 2 threads and 6,000 tokens unless `options` says otherwise.
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const LoadedModel& model, EngineOptions options);

struct Text {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
};
Text RandomText(std::mt19937& random, int64_t tokens, int64_t vocabulary);
// One request for each text, that wants nothing yet. `texts` must outlive them.
std::vector<Request> RequestsOf(const std::vector<Text>& texts);

// Forward, each result being a success.
std::vector<Result> RunBatch(Engine& engine, const std::vector<Request>& requests);

}  // namespace lion::testing
