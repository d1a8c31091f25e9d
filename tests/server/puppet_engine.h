// An engine that computes nothing, runs when told and remembers what it was given.
#pragma once

#include <cmath>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "server/mutex.h"

namespace lion {

// The answer to an input follows from its first value v (of red, as stored): embedding row r is {v, -v, v + r, 0}, the
// logits are {v, 2 v, -v}. v = kNotFinite is answered as a non-finite output.
class PuppetEngine : public Engine {
 public:
  static constexpr float kNotFinite = 1e6f;
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
  ModelConfig& mutable_config() { return config_; }

  absl::Status Forward(std::span<const Request> requests, std::span<Result> results) override {
    MutexLock lock(mutex_);
    ++entered_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    inputs_ += static_cast<int64_t>(requests.size());
    ++batches_;
    if (has_no_memory_) throw std::bad_alloc();
    if (fails_) return absl::InternalError("the puppet's strings are cut");
    for (size_t i = 0; i < requests.size(); ++i) results[i] = Answer(requests[i]);
    return absl::OkStatus();
  }

  absl::Status CheckText(const TextInput&) const override {
    return absl::InvalidArgumentError("the model takes images, not text");
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

  Result Answer(const Request& request) const {
    const float v = request.image.layout == PixelLayout::kPlanarFloat32
                        ? *static_cast<const float*>(request.image.pixels)
                        : *static_cast<const uint8_t*>(request.image.pixels);
    Result result;
    if (v == kNotFinite) {
      result.status = absl::InternalError("the output is not finite");
      return result;
    }
    result.rows = request.pooling == Pooling::kNone ? *CountTokens(request.image.height, request.image.width) : 1;
    if (request.embedding) result.embedding.reserve(static_cast<size_t>(4 * result.rows));
    for (int64_t row = 0; request.embedding && row < result.rows; ++row) {
      for (const float x : {v, -v, v + static_cast<float>(row), 0.0f}) result.embedding.push_back(x);
    }
    if (request.logits) result.logits = {v, 2 * v, -v};
    return result;
  }

  ModelConfig config_;
  Mutex mutex_;
  CondVar changed_;
  bool held_ = false;
  bool fails_ = false;
  bool has_no_memory_ = false;
  int64_t entered_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t inputs_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lion
