// Row-wise layers against the float64 reference, and against themselves in other batches.

#include "kernels/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion {
namespace {

using testing::Buffer;
using testing::Near;

struct Layer {
  std::vector<float> weight, bias;
  int64_t inputs, outputs;
};

Layer MakeLayer(std::mt19937& random, int64_t inputs, int64_t outputs) {
  return {testing::Normal(random, inputs * outputs, 1 / std::sqrt(static_cast<float>(inputs))),
          testing::Normal(random, outputs), inputs, outputs};
}

std::unique_ptr<PackedLinear> Pack(const Operations& kernels, const Layer& layer, DataType type, int64_t tail = 0) {
  auto packed = kernels.pack_linear({layer.weight.data(), layer.bias.data(), layer.inputs, layer.outputs, type, tail});
  EXPECT_TRUE(packed.ok()) << packed.status();
  return packed.ok() ? *std::move(packed) : nullptr;
}

// Some machines and instruction sets have no bfloat16 products.
bool HasBFloat16(const Operations& kernels) {
  const float one = 1;
  return kernels.pack_linear({&one, nullptr, 1, 1, DataType::kBFloat16}).ok();
}

struct NormValues {
  explicit NormValues(std::mt19937& random, int64_t width)
      : gamma(testing::Normal(random, width, 0.5f, 1)), beta(testing::Normal(random, width)) {}
  NormParameters parameters() const { return {gamma.data(), beta.data(), 1e-6f}; }
  std::vector<float> gamma, beta;
};

TEST(LinearKernel, EveryPartEqualsTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(1);
  struct Shape {
    int64_t inputs, outputs, tail;
  };
  for (const Shape shape : {Shape{12, 10, 0}, {48, 152, 8}, {192, 582, 6}, {100, 33, 1}, {1, 1, 0}}) {
    const Layer layer = MakeLayer(random, shape.inputs, shape.outputs);
    const NormValues pre(random, shape.inputs), post(random, shape.outputs);
    for (const int64_t rows : {1, 63, 64, 65, 200}) {
      const std::vector<float> input = testing::Normal(random, rows * shape.inputs, 2, 0.5f);
      const std::vector<float> residual = testing::Normal(random, rows * shape.outputs);
      for (const DataType compute : {DataType::kFloat32, DataType::kBFloat16}) {
        if (compute == DataType::kBFloat16 && !HasBFloat16(cpu)) continue;
        for (int variant = 0; variant < 9; ++variant) {
          const bool bare = variant <= 1 || variant == 8, in_place = variant == 6 || variant == 7;
          if (shape.tail > 0 && !bare) continue;
          std::vector<float> tails[2];
          const auto run = [&](const Operations& kernels, std::vector<float>& tail_values) {
            const auto context = testing::MakeContext(kernels, 2);
            const auto linear = Pack(kernels, layer, compute, shape.tail);
            const bool with_norm = variant == 1 || variant == 4;
            Buffer in = Buffer::Of(variant == 1 ? DataType::kFloat32 : compute, input);
            const bool to_bfloat16 = variant == 2 || variant == 8;
            Buffer out(to_bfloat16 ? DataType::kBFloat16 : DataType::kFloat32, rows * (shape.outputs - shape.tail));
            if (in_place) out = Buffer::Of(DataType::kFloat32, residual);
            Buffer tail(DataType::kFloat32, rows * shape.tail);
            LinearArgs args{.input = in.data(),
                            .input_type = in.type(),
                            .rows = rows,
                            .linear = linear.get(),
                            .output = out.data(),
                            .output_type = out.type(),
                            .tail = tail.floats(),
                            .tail_columns = shape.tail};
            if (with_norm) args.pre_norm = pre.parameters();
            if (!bare && !in_place) args.activation = Activation::kGeluErf;
            if (variant >= 3 && variant <= 5) args.residual = residual.data();
            if (in_place) args.residual = out.floats();
            if (variant == 5 || variant == 7) args.post_norm = post.parameters();
            EXPECT_TRUE(kernels.linear(*context, args).ok());
            EXPECT_TRUE(out.guards_intact() && tail.guards_intact());
            tail_values = tail.values();
            return out.values();
          };
          const std::vector<float> want = run(ReferenceOperations(), tails[0]), got = run(cpu, tails[1]);
          // A norm of one column is 0 / 0 in effect: only its shift is left.
          const double bound = variant == 2 || variant == 8 ? 4e-3 : compute == DataType::kFloat32 ? 2e-6 : 4e-3;
          EXPECT_TRUE(Near(got, want, bound)) << shape.inputs << "x" << shape.outputs << " rows " << rows << " variant "
                                              << variant << " compute " << static_cast<int>(compute);
          EXPECT_TRUE(Near(tails[1], tails[0], bound));
        }
      }
    }
  }
}

TEST(LinearKernel, MlpEqualsTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(2);
  for (const int64_t width : {48, 100, 192}) {
    const Layer fc1 = MakeLayer(random, width, 4 * width), fc2 = MakeLayer(random, 4 * width, width);
    const NormValues norm(random, width);
    for (const int64_t rows : {1, 64, 130}) {
      const std::vector<float> input = testing::Normal(random, rows * width, 3);
      for (const DataType compute : {DataType::kFloat32, DataType::kBFloat16}) {
        if (compute == DataType::kBFloat16 && !HasBFloat16(cpu)) continue;
        for (const bool post : {false, true}) {
          const auto run = [&](const Operations& kernels) {
            const auto context = testing::MakeContext(kernels, 2);
            const auto first = Pack(kernels, fc1, compute), second = Pack(kernels, fc2, compute);
            Buffer x = Buffer::Of(DataType::kFloat32, input);
            MlpArgs args{.x = x.floats(), .rows = rows, .fc1 = first.get(), .fc2 = second.get()};
            (post ? args.post_norm : args.pre_norm) = norm.parameters();
            EXPECT_TRUE(kernels.mlp(*context, args).ok());
            EXPECT_TRUE(x.guards_intact());
            return x.values();
          };
          EXPECT_TRUE(Near(run(cpu), run(ReferenceOperations()), compute == DataType::kFloat32 ? 2e-6 : 6e-3));
        }
      }
    }
  }
}

TEST(LinearKernel, GeluIsExactOverItsWholeRange) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::vector<float> x;
  for (float v = -12; v <= 12; v += 1.0f / 512) x.push_back(v);
  for (float v : {-1e30f, -1e4f, -5.5437f, 5.5437f, 1e4f, 1e30f, 1e-30f, -0.0f}) x.push_back(v);
  const auto context = testing::MakeContext(cpu, 1);
  const float one = 1;
  const auto identity = cpu.pack_linear({&one, nullptr, 1, 1, DataType::kFloat32}).value();
  std::vector<float> y(x.size());
  ASSERT_TRUE(cpu.linear(*context, {.input = x.data(),
                                    .rows = static_cast<int64_t>(x.size()),
                                    .pre_norm = {},
                                    .linear = identity.get(),
                                    .activation = Activation::kGeluErf,
                                    .post_norm = {},
                                    .output = y.data()})
                  .ok());
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = 0.5 * x[i] * (1 + std::erf(x[i] * std::sqrt(0.5)));
    EXPECT_NEAR(y[i], want, 2e-7 * std::max(1.0, std::abs(static_cast<double>(x[i])))) << x[i];
  }
}

TEST(LinearKernel, ARowDoesNotFeelItsBatch) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(3);
  const int64_t width = 192, rows = 150;
  const Layer fc1 = MakeLayer(random, width, 4 * width), fc2 = MakeLayer(random, 4 * width, width);
  const NormValues norm(random, width);
  const std::vector<float> input = testing::Normal(random, rows * width);
  for (const DataType compute : {DataType::kFloat32, DataType::kBFloat16}) {
    if (compute == DataType::kBFloat16 && !HasBFloat16(cpu)) continue;
    const auto first = Pack(cpu, fc1, compute), second = Pack(cpu, fc2, compute);
    const auto run = [&](std::vector<float> x, int threads) {
      const auto context = testing::MakeContext(cpu, threads);
      MlpArgs args{
          .x = x.data(), .rows = static_cast<int64_t>(x.size()) / width, .fc1 = first.get(), .fc2 = second.get()};
      args.pre_norm = norm.parameters();
      EXPECT_TRUE(cpu.mlp(*context, args).ok());
      return x;
    };
    const std::vector<float> together = run(input, 2);
    for (const int64_t row : {0, 5, 63, 64, 100, 149}) {
      const std::vector<float> alone = run({input.begin() + row * width, input.begin() + (row + 1) * width}, 1);
      EXPECT_EQ(alone, std::vector<float>(together.begin() + row * width, together.begin() + (row + 1) * width)) << row;
    }
  }
}

}  // namespace
}  // namespace lion
