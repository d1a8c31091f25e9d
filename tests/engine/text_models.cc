#include "tests/engine/text_models.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/support/golden.h"

namespace lion::testing {

std::string Isa() {
  const char* isa = std::getenv("LION_TEST_ISA");
  return isa == nullptr ? "auto" : isa;
}

LoadedModel LoadText(const std::string& name) {
  absl::StatusOr<LoadedModel> model = LoadModel(SourcePath("tests/golden/text/" + name), {});
  if (!model.ok()) {
    std::cerr << name << ": " << model.status() << "\n";
    std::abort();
  }
  return *std::move(model);
}

LoadedModel WithoutPositions(LoadedModel model) {
  model.config.max_positions = 0;
  model.text.position_embeddings = {};
  return model;
}

ReplacedTensor::ReplacedTensor(TensorView& view) : view_(view), before_(view), values_(ToFloat32(view)) {
  view.type = TensorType::kFloat32;
  view.data = values_.data();
  int64_t stride = 1;
  for (size_t d = view.shape.size(); d-- > 0; stride *= view.shape[d]) view.strides[d] = stride;
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const LoadedModel& model, EngineOptions options) {
  options.isa = Isa();
  if (options.max_batch_tokens == 0) options.max_batch_tokens = 6000;
  if (options.threads == 0) options.threads = 2;
  return Engine::Create(model, options);
}

Text RandomText(std::mt19937& random, int64_t tokens, int64_t vocabulary) {
  Text text;
  for (int64_t i = 0; i < tokens; ++i) {
    text.ids.push_back(static_cast<int32_t>(random() % vocabulary));
    text.type_ids.push_back(static_cast<int32_t>(random() % 2));
  }
  return text;
}

std::vector<Request> RequestsOf(const std::vector<Text>& texts) {
  std::vector<Request> requests;
  for (const Text& text : texts) requests.push_back({.text = {.ids = text.ids, .type_ids = text.type_ids}});
  return requests;
}

std::vector<Result> RunBatch(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Result> results(requests.size());
  const absl::Status status = engine.Forward(requests, results);
  EXPECT_TRUE(status.ok()) << status;
  for (const Result& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
  return results;
}

}  // namespace lion::testing
