#include "benchmarks/engine/random_model.h"

#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace lion {
namespace {

// Owns what the views point to.
class Tensors {
 public:
  TensorView Normal(std::vector<int64_t> shape, float deviation, float mean = 0) {
    int64_t count = 1;
    for (const int64_t side : shape) count *= side;
    std::vector<float>& data = arrays_.emplace_back(static_cast<size_t>(count));
    std::normal_distribution<float> normal(mean, deviation);
    for (float& value : data) value = normal(random_);
    TensorView view = {TensorType::kFloat32, std::move(shape), {}, data.data()};
    view.strides.assign(view.shape.size(), 1);
    for (size_t i = view.shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * view.shape[i];
    return view;
  }
  LinearWeights Linear(int64_t outputs, int64_t inputs) {
    return {Normal({outputs, inputs}, 1 / std::sqrt(static_cast<float>(inputs))), Normal({outputs}, 0.02f)};
  }
  NormWeights Norm(int64_t width) { return {Normal({width}, 0.1f, 1), Normal({width}, 0.02f)}; }

 private:
  std::mt19937 random_{1};
  std::vector<std::vector<float>> arrays_;
};

}  // namespace

LoadedModel RandomModel(const ModelShape& shape) {
  auto tensors = std::make_shared<Tensors>();
  Tensors& make = *tensors;
  LoadedModel model;
  ModelConfig& config = model.config;
  config.variant = shape.variant;
  config.order = shape.order;
  config.depth = shape.depth;
  config.width = shape.width;
  config.heads = shape.heads;
  config.mlp_width = 4 * shape.width;
  config.classes = 1000;
  const int64_t d = shape.width, patch = config.patch_size;
  model.vision.patch = {make.Normal({d, 3, patch, patch}, 1 / std::sqrt(static_cast<float>(3 * patch * patch))),
                        make.Normal({d}, 0.02f)};
  model.vision.cls_token = make.Normal({1, 1, d}, 0.5f);
  for (int64_t i = 0; i < shape.depth; ++i) {
    VisionBlockWeights& block = model.vision.blocks.emplace_back();
    block.norm1 = make.Norm(d);
    block.qkv = make.Linear(3 * d, d);
    if (shape.variant == Variant::kLionS) {
      block.gate = make.Linear(shape.heads, d);
      if (shape.order == PatchOrder::kS) block.gate2 = make.Linear(shape.heads, d);
    }
    if (shape.variant == Variant::kLionD) {
      block.decay = make.Normal({shape.heads}, 1, 2);
      if (shape.order == PatchOrder::kS) block.decay2 = make.Normal({shape.heads}, 1, 2);
    }
    block.proj = make.Linear(d, d);
    block.norm2 = make.Norm(d);
    block.fc1 = make.Linear(4 * d, d);
    block.fc2 = make.Linear(d, 4 * d);
  }
  model.vision.norm = make.Norm(d);
  model.vision.head = make.Linear(config.classes, d);
  model.storage = std::move(tensors);
  return model;
}

}  // namespace lion
