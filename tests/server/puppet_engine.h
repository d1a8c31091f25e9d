// An engine that computes nothing, runs when told and remembers what it was given.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "server/mutex.h"

namespace lion {

// The answer to an input follows from one value v: embedding row r is {v, -v, v + r, 0}, the logits are {v, 2 v, -v}.
// An image's is its first (of red, as stored), a text's the sum of its ids times their places, from 1, and 1000 for
// each type id of 1. v = kNotFinite, or a text with kNotFiniteId, is answered as a non-finite output. Behind a mask at
// place p are the ids p, p + 1, ..., with probabilities 1/2, 1/3, ...
class PuppetEngine : public Engine {
 public:
  static constexpr float kNotFinite = 1e6f;
  static constexpr int32_t kNotFiniteId = 89;
  static constexpr int64_t kPatch = 8;

  PuppetEngine() {
    config_.width = 4;
    config_.heads = 1;
    config_.depth = 1;
    config_.patch_size = kPatch;
    config_.classes = 3;
    config_.labels = {"zero", "one", "two"};
    config_.image.size = 16;
    config_.image.crop_ratio = 1;
  }
  // Of texts, with every head.
  static std::unique_ptr<PuppetEngine> OfText() {
    auto engine = std::make_unique<PuppetEngine>();
    engine->config_.modality = Modality::kText;
    engine->config_.vocabulary = 200;
    engine->config_.type_vocabulary = 2;
    engine->config_.masked_lm = true;
    engine->config_.pooler = true;
    return engine;
  }
  ModelConfig& mutable_config() { return config_; }

  absl::Status Forward(std::span<const Request> requests, std::span<Result> results) override {
    MutexLock lock(mutex_);
    ++entered_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    inputs_ += static_cast<int64_t>(requests.size());
    ++batches_;
    if (has_no_memory_) throw std::bad_alloc();
    if (throws_) throw std::runtime_error("a string snaps");
    if (fails_) return absl::InternalError("the puppet's strings are cut");
    for (size_t i = 0; i < requests.size(); ++i) results[i] = Answer(requests[i]);
    return absl::OkStatus();
  }

  absl::Status CheckText(const TextInput& text) const override {
    if (config_.modality == Modality::kVision) return absl::InvalidArgumentError("the model takes images, not text");
    if (text.ids.empty()) return absl::InvalidArgumentError("there are no tokens");
    if (!text.type_ids.empty() && text.type_ids.size() != text.ids.size()) {
      return absl::InvalidArgumentError(absl::StrCat(text.type_ids.size(), " type ids for ", text.ids.size(), " ids"));
    }
    for (const int32_t id : text.ids) {
      if (id >= config_.vocabulary) return absl::InvalidArgumentError(absl::StrCat("there is no token ", id));
    }
    for (const int32_t id : text.type_ids) {
      if (id >= config_.type_vocabulary) return absl::InvalidArgumentError(absl::StrCat("there is no type ", id));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> CountTokens(int64_t height, int64_t width) const override {
    if (height < kPatch || width < kPatch) {
      return absl::InvalidArgumentError(
          absl::StrCat("an image of ", width, "x", height, " pixels is smaller than a patch, ", kPatch, "x", kPatch));
    }
    return (height / kPatch) * (width / kPatch) + 1;
  }
  const ModelConfig& config() const override { return config_; }
  std::string device() const override { return "puppet"; }
  std::string isa() const override { return "none"; }
  ComputeType compute_type() const override { return ComputeType::kFloat32; }
  MixerForm mixer() const override { return MixerForm::kChunk; }
  int threads() const override { return 1; }
  int64_t max_batch_tokens() const override { return int64_t{1} << 20; }
  int64_t weight_bytes() const override { return 1234; }
  int64_t bytes_per_token() const override { return 56; }

  // From now on batches wait inside Forward until Release.
  void Hold() { Set(held_, true); }
  void Release() { Set(held_, false); }
  void Fail() { Set(fails_, true); }
  void Throw() { Set(throws_, true); }
  void TakeMemory() { Set(has_no_memory_, true); }
  void GiveMemory() { Set(has_no_memory_, false); }
  void AwaitEntered(int64_t batches) {
    MutexLock lock(mutex_);
    while (entered_ < batches) changed_.Wait(mutex_);
  }
  // What was computed so far.
  int64_t inputs() {
    MutexLock lock(mutex_);
    return inputs_;
  }
  int64_t batches() {
    MutexLock lock(mutex_);
    return batches_;
  }

 private:
  void Set(bool& flag, bool value) {
    MutexLock lock(mutex_);
    flag = value;
    changed_.NotifyAll();
  }

  float ValueOf(const Request& request) const {
    if (config_.modality == Modality::kVision) {
      return request.image.layout == PixelLayout::kPlanarFloat32 ? *static_cast<const float*>(request.image.pixels)
                                                                 : *static_cast<const uint8_t*>(request.image.pixels);
    }
    int64_t sum = 0;
    for (size_t i = 0; i < request.text.ids.size(); ++i) {
      if (request.text.ids[i] == kNotFiniteId) return kNotFinite;
      sum += static_cast<int64_t>(i + 1) * request.text.ids[i];
    }
    for (const int32_t type : request.text.type_ids) sum += 1000 * type;
    return static_cast<float>(sum);
  }

  Result Answer(const Request& request) const {
    const float v = ValueOf(request);
    Result result;
    if (v == kNotFinite) {
      result.status = absl::InternalError("the output is not finite");
      return result;
    }
    const int64_t tokens = config_.modality == Modality::kVision
                               ? *CountTokens(request.image.height, request.image.width)
                               : static_cast<int64_t>(request.text.ids.size());
    result.rows = request.pooling == Pooling::kNone ? tokens : 1;
    if (request.embedding) result.embedding.reserve(static_cast<size_t>(4 * result.rows));
    for (int64_t row = 0; request.embedding && row < result.rows; ++row) {
      for (const float x : {v, -v, v + static_cast<float>(row), 0.0f}) result.embedding.push_back(x);
    }
    if (request.logits) result.logits = config_.regression ? std::vector<float>{v} : std::vector<float>{v, 2 * v, -v};
    for (const int32_t place : request.masked) {
      for (int32_t i = 0; i < std::min(request.predictions, config_.vocabulary); ++i) {
        const auto id = static_cast<int32_t>((place + i) % config_.vocabulary);
        result.predictions.push_back(
            {.id = id, .logit = -static_cast<float>(i), .probability = 1.0f / static_cast<float>(i + 2)});
      }
    }
    return result;
  }

  ModelConfig config_;
  Mutex mutex_;
  CondVar changed_;
  bool held_ = false;
  bool fails_ = false;
  bool throws_ = false;
  bool has_no_memory_ = false;
  int64_t entered_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t inputs_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lion
