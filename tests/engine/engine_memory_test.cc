// What a token costs: activation memory that depends on the width alone.

#include <gtest/gtest.h>

#include <vector>

#include "engine/engine.h"

namespace lion {
namespace {

// Models of any shape whose weights are all 0 and share one array.
class Zeros {
 public:
  explicit Zeros(int64_t width) : width_(width), zeros_(4 * width * width) {}

  LoadedModel Vision(Variant variant, PatchOrder order, int64_t depth) {
    LoadedModel model = Model(Modality::kVision, variant, depth);
    model.config.order = order;
    VisionBlockWeights block{.norm1 = Norm(),
                             .qkv = Linear(3 * width_, width_),
                             .gate = {},
                             .gate2 = {},
                             .decay = {},
                             .decay2 = {},
                             .proj = Linear(width_, width_),
                             .norm2 = Norm(),
                             .fc1 = Linear(4 * width_, width_),
                             .fc2 = Linear(width_, 4 * width_)};
    if (variant == Variant::kLionS) block.gate = block.gate2 = Linear(model.config.heads, width_);
    if (variant == Variant::kLionD) block.decay = block.decay2 = View({model.config.heads});
    model.vision.patch = {View({width_, 3, 16, 16}), View({width_})};
    model.vision.cls_token = View({1, 1, width_});
    model.vision.blocks.assign(depth, block);
    model.vision.norm = Norm();
    return model;
  }

  LoadedModel Text(Variant variant, int64_t depth) {
    LoadedModel model = Model(Modality::kText, variant, depth);
    model.config.vocabulary = 100;
    model.config.type_vocabulary = 2;
    const LinearWeights square = Linear(width_, width_);
    TextLayerWeights layer{.query = square,
                           .key = square,
                           .value = square,
                           .gate = {},
                           .decay = {},
                           .mixer_norm = {},
                           .attention_output = square,
                           .attention_norm = Norm(),
                           .intermediate = Linear(4 * width_, width_),
                           .output = Linear(width_, 4 * width_),
                           .output_norm = Norm()};
    if (variant == Variant::kLionS) layer.gate = Linear(model.config.heads, width_);
    if (variant == Variant::kLionD) layer.decay = View({model.config.heads});
    model.text.word_embeddings = View({100, width_});
    model.text.type_embeddings = View({2, width_});
    model.text.embeddings_norm = Norm();
    model.text.layers.assign(depth, layer);
    return model;
  }

 private:
  LoadedModel Model(Modality modality, Variant variant, int64_t depth) const {
    LoadedModel model;
    model.config.modality = modality;
    model.config.variant = variant;
    model.config.depth = depth;
    model.config.width = width_;
    model.config.heads = width_ / 64;
    model.config.mlp_width = 4 * width_;
    return model;
  }
  TensorView View(std::vector<int64_t> shape) const {
    TensorView view{TensorType::kFloat32, std::move(shape), {}, zeros_.data()};
    view.strides.assign(view.shape.size(), 1);
    for (size_t i = view.shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * view.shape[i];
    return view;
  }
  LinearWeights Linear(int64_t outputs, int64_t inputs) const { return {View({outputs, inputs}), View({outputs})}; }
  NormWeights Norm() const { return {View({width_}), View({width_})}; }

  const int64_t width_;
  const std::vector<float> zeros_;
};

// Bytes per token of an engine whose longest sequence is long enough that what does not grow with it vanishes.
int64_t BytesPerToken(const LoadedModel& model, ComputeType type) {
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Create(model, {.compute_type = type, .threads = 2, .max_batch_tokens = 8192});
  if (!engine.ok() && type == ComputeType::kBFloat16) return 0;  // not every machine has it
  EXPECT_TRUE(engine.ok()) << engine.status();
  return (*engine)->bytes_per_token();
}

class EngineMemory : public ::testing::TestWithParam<int64_t> {};

TEST_P(EngineMemory, ATokenTakesAtMost16DBytesInBFloat16And28DInFloat32) {
  const int64_t width = GetParam();
  Zeros zeros(width);
  for (const Variant variant : {Variant::kLionLit, Variant::kLionD, Variant::kLionS, Variant::kSoftmax}) {
    for (const LoadedModel& model : {zeros.Text(variant, 1), zeros.Vision(variant, PatchOrder::kNormal, 1),
                                     zeros.Vision(variant, PatchOrder::kS, 1)}) {
      const int64_t bfloat16 = BytesPerToken(model, ComputeType::kBFloat16);
      const int64_t float32 = BytesPerToken(model, ComputeType::kFloat32);
      EXPECT_LE(bfloat16, 16 * width) << VariantName(variant);
      EXPECT_LE(float32, 28 * width) << VariantName(variant);
      EXPECT_GE(float32, 20 * width);
    }
  }
}

TEST_P(EngineMemory, DepthDoesNotMatter) {
  Zeros zeros(GetParam());
  for (const ComputeType type : {ComputeType::kBFloat16, ComputeType::kFloat32}) {
    EXPECT_EQ(BytesPerToken(zeros.Text(Variant::kLionS, 1), type), BytesPerToken(zeros.Text(Variant::kLionS, 3), type));
    EXPECT_EQ(BytesPerToken(zeros.Vision(Variant::kLionS, PatchOrder::kS, 1), type),
              BytesPerToken(zeros.Vision(Variant::kLionS, PatchOrder::kS, 3), type));
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, EngineMemory, ::testing::Values(192, 384, 768));

}  // namespace
}  // namespace lion
