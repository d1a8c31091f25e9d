// The GPU's softmax attention, on the host, against the float64 reference.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/emulated/block.h"
#include "kernels/cuda/mixer.h"
#include "kernels/operations.h"
#include "tests/kernels/mixer_cases.h"
#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion::cuda {
namespace {

using ::lion::testing::Buffer;
using ::lion::testing::Near;

std::vector<float> Attention(const testing::MixerCase& c, DataType type, bool reference) {
  Buffer qkv = Buffer::Of(type, c.qkv), output(type, c.tokens() * c.heads * c.head_width);
  const SoftmaxAttentionArgs args{c.offsets,    c.heads, c.head_width,
                                  qkv.data(),   type,    1 / std::sqrt(static_cast<float>(c.head_width)),
                                  output.data()};
  if (reference) {
    const auto context = testing::MakeContext(ReferenceOperations(), 1);
    EXPECT_TRUE(ReferenceOperations().softmax_attention(*context, args).ok());
    return output.values();
  }
  std::vector<MixerPart> tiles;
  PlanTiles(c.offsets, tiles);
  const LaunchResult result = SoftmaxAttention(args, tiles.data(), static_cast<int64_t>(tiles.size()), nullptr);
  EXPECT_TRUE(result.ok()) << result.fault;
  EXPECT_TRUE(output.guards_intact());
  return output.values();
}

testing::MixerCase AttentionCase(std::mt19937& random, std::initializer_list<int64_t> lengths, int64_t width) {
  return testing::MakeMixerCase(random, lengths, width, testing::Decay::kNone, 1, FeatureMap::kIdentity, false);
}

TEST(CudaSoftmaxAttention, EqualsTheReference) {
  std::mt19937 random(2);
  for (const int64_t width : {12, 33, 64, 128}) {
    for (const float spread : {1.0f, 20.0f}) {
      testing::MixerCase c = AttentionCase(random, {1, 2, 15, 64, 65, 197}, width);
      for (float& value : c.qkv) value *= spread;
      EXPECT_TRUE(
          Near(Attention(c, DataType::kFloat32, false), Attention(c, DataType::kFloat32, true), testing::kFloat32Bound))
          << width;
      EXPECT_TRUE(Near(Attention(c, DataType::kBFloat16, false), Attention(c, DataType::kBFloat16, true), 1e-2))
          << width;
    }
  }
}

TEST(CudaSoftmaxAttention, ASequenceFeelsNeitherItsBatchNorTheOrderOfThreads) {
  std::mt19937 random(3);
  const testing::MixerCase batch = AttentionCase(random, {130, 1, 70}, 64);
  const std::vector<float> together = Attention(batch, DataType::kBFloat16, false);
  emulation::SetRunOrder(emulation::RunOrder::kShuffled);
  EXPECT_EQ(Attention(batch, DataType::kBFloat16, false), together);
  emulation::SetRunOrder(emulation::RunOrder::kLockstep);
  const int64_t row = batch.heads * batch.head_width;
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(
        Attention(testing::AloneInBatch(batch, s), DataType::kBFloat16, false),
        std::vector<float>(together.begin() + batch.offsets[s] * row, together.begin() + batch.offsets[s + 1] * row));
  }
}

TEST(CudaSoftmaxAttention, RefusesHeadsWiderThanItsTiles) {
  const std::vector<int64_t> offsets = {0, 1};
  std::vector<float> qkv(3 * 129), output(129);
  std::vector<MixerPart> tiles;
  PlanTiles(offsets, tiles);
  const SoftmaxAttentionArgs args{offsets, 1, kMaxHeadWidth + 1, qkv.data(), DataType::kFloat32, 1, output.data()};
  EXPECT_THAT(SoftmaxAttention(args, tiles.data(), 1, nullptr).fault, ::testing::HasSubstr("want 1 to 128"));
}

TEST(CudaSoftmaxAttention, NaNSpreads) {
  std::mt19937 random(4);
  for (const int part : {0, 1, 2}) {
    testing::MixerCase c = AttentionCase(random, {130, 20}, 16);
    const int64_t row = c.heads * c.head_width, token = 100;
    c.qkv[(token * 3 + part) * row + 7] = std::nanf("");
    const std::vector<float> got = Attention(c, DataType::kBFloat16, false);
    for (int64_t t = 0; t < c.tokens(); ++t) {
      bool any = false;
      for (int64_t i = 0; i < c.head_width; ++i) any = any || std::isnan(got[t * row + i]);
      ASSERT_EQ(any, part == 0 ? t == token : t < 130) << "part " << part << " token " << t;
    }
  }
}

}  // namespace
}  // namespace lion::cuda
