// Patch embedding and pooling against the float64 reference.

#include "kernels/vision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion {
namespace {

using testing::Buffer;
using testing::Near;

TEST(VisionKernel, PatchEmbeddingEqualsTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(1);
  const int64_t size = 4, width = 20, grid = 3;
  const std::vector<float> weight = testing::Normal(random, width * 3 * size * size, 0.1f);
  const std::vector<float> bias = testing::Normal(random, width), cls = testing::Normal(random, width);
  const std::vector<float> positions = testing::Normal(random, (1 + grid * grid) * width);
  // Sizes with pixels beyond the last whole patch, one patch, the grid's own size, more patches than a row tile.
  const std::pair<int64_t, int64_t> sizes[] = {{13, 9}, {4, 4}, {12, 12}, {40, 47}, {4, 70}};
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<std::vector<float>> floats;
  std::vector<PatchImage> images;
  std::vector<int64_t> offsets = {0};
  for (const PixelLayout layout :
       {PixelLayout::kInterleavedUint8, PixelLayout::kPlanarUint8, PixelLayout::kPlanarFloat32}) {
    for (const auto& [height, columns] : sizes) {
      PatchImage image{nullptr, layout, height, columns, height / size, columns / size};
      if (layout == PixelLayout::kPlanarFloat32) {
        floats.push_back(testing::Normal(random, 3 * height * columns));
        image.pixels = floats.back().data();
      } else {
        bytes.emplace_back(3 * height * columns);
        for (uint8_t& value : bytes.back()) value = static_cast<uint8_t>(random());
        image.pixels = bytes.back().data();
      }
      images.push_back(image);
      offsets.push_back(offsets.back() + 1 + image.rows * image.columns);
    }
  }
  for (const bool with_positions : {true, false}) {
    const auto run = [&](const Operations& kernels) {
      const auto context = testing::MakeContext(kernels, 2);
      const auto projection =
          kernels.pack_linear({weight.data(), bias.data(), 3 * size * size, width, DataType::kFloat32}).value();
      Buffer tokens(DataType::kFloat32, offsets.back() * width);
      EXPECT_TRUE(kernels
                      .patch_embed(*context, {.images = images,
                                              .offsets = offsets,
                                              .patch_size = size,
                                              .mean = {0.485f, 0.456f, 0.406f},
                                              .std = {0.229f, 0.224f, 0.225f},
                                              .projection = projection.get(),
                                              .cls_token = cls.data(),
                                              .positions = with_positions ? positions.data() : nullptr,
                                              .grid = grid,
                                              .tokens = tokens.floats()})
                      .ok());
      EXPECT_TRUE(tokens.guards_intact());
      return tokens.values();
    };
    EXPECT_TRUE(Near(run(cpu), run(ReferenceOperations()), 1e-6));
  }
}

TEST(VisionKernel, PoolsEqualTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(2);
  const int64_t width = 20;
  const std::vector<int64_t> offsets = testing::Offsets({1, 511, 512, 513, 3000, 2});
  const std::vector<float> x = testing::Normal(random, offsets.back() * width, 1, 3);
  const std::vector<float> gamma = testing::Normal(random, width), beta = testing::Normal(random, width);
  for (const PoolKind kind : {PoolKind::kMean, PoolKind::kFirst, PoolKind::kMax, PoolKind::kLast}) {
    for (const bool norm : {true, false}) {
      const auto run = [&](const Operations& kernels) {
        const auto context = testing::MakeContext(kernels, 2);
        Buffer output(DataType::kFloat32, (static_cast<int64_t>(offsets.size()) - 1) * width);
        PoolArgs args{
            .x = x.data(), .offsets = offsets, .width = width, .norm = {}, .kind = kind, .output = output.floats()};
        if (norm) args.norm = {gamma.data(), beta.data(), 1e-6f};
        EXPECT_TRUE(kernels.pool(*context, args).ok());
        EXPECT_TRUE(output.guards_intact());
        return output.values();
      };
      EXPECT_TRUE(Near(run(cpu), run(ReferenceOperations()), 1e-6)) << static_cast<int>(kind);
    }
  }
}

TEST(VisionKernel, NaNComesThroughEveryPool) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  const std::vector<int64_t> offsets = {0, 600};
  for (const int64_t place : {0, 3, 599}) {
    std::vector<float> x(600, 1.0f);
    x[place] = std::numeric_limits<float>::quiet_NaN();
    for (const PoolKind kind : {PoolKind::kMean, PoolKind::kMax}) {
      for (const Operations* kernels : {&cpu, &ReferenceOperations()}) {
        const auto context = testing::MakeContext(*kernels, 1);
        float output = 0;
        ASSERT_TRUE(kernels->pool(*context, {x.data(), offsets, 1, {}, kind, &output}).ok());
        EXPECT_TRUE(std::isnan(output)) << kernels->name << " place " << place;
      }
    }
  }
}

}  // namespace
}  // namespace lion
