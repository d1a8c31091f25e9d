// The ends of the GPU's vision encoder, on the host, against the float64 reference.

#include "kernels/cuda/vision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/operations.h"
#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion::cuda {
namespace {

using ::lion::testing::Buffer;
using ::lion::testing::Near;
using ::lion::testing::Normal;

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBFloat16};

struct Images {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<std::vector<float>> floats;
  std::vector<PatchImage> images;
  std::vector<DevicePatchImage> on_device;
  std::vector<int64_t> offsets = {0};
  int64_t patches = 0;
};

// Images of all layouts, with pixels beyond the last whole patch.
Images MakeImages(std::mt19937& random, int64_t size) {
  Images made;
  const int64_t shapes[][2] = {{1, 1}, {2, 3}, {3, 2}, {1, 5}, {4, 4}};
  int n = 0;
  for (const auto& [rows, columns] : shapes) {
    PatchImage image;
    image.layout = static_cast<PixelLayout>(n++ % 3);
    image.rows = rows;
    image.columns = columns;
    image.height = rows * size + n % 2 * (size - 1);
    image.width = columns * size + n % 3;
    made.floats.push_back(Normal(random, image.height * image.width * 3));
    made.bytes.emplace_back(image.height * image.width * 3);
    for (uint8_t& byte : made.bytes.back()) byte = static_cast<uint8_t>(random());
    image.pixels = image.layout == PixelLayout::kPlanarFloat32 ? static_cast<const void*>(made.floats.back().data())
                                                               : made.bytes.back().data();
    made.images.push_back(image);
    made.on_device.push_back({image, made.patches});
    made.patches += rows * columns;
    made.offsets.push_back(made.offsets.back() + rows * columns + 1);
  }
  return made;
}

// What the reference makes of the images with this projection, tokens [*, D].
std::vector<float> ReferenceTokens(const Images& images, int64_t size, int64_t width, const std::vector<float>& weight,
                                   const std::vector<float>& cls, const std::vector<float>& positions, int64_t grid) {
  const auto context = testing::MakeContext(ReferenceOperations(), 1);
  const auto projection = ReferenceOperations().pack_linear(
      {.weight = weight.data(), .bias = nullptr, .inputs = 3 * size * size, .outputs = width});
  std::vector<float> tokens(images.offsets.back() * width);
  EXPECT_TRUE(ReferenceOperations()
                  .patch_embed(*context, {.images = images.images,
                                          .offsets = images.offsets,
                                          .patch_size = size,
                                          .mean = {0.4f, 0.5f, 0.6f},
                                          .std = {0.2f, 0.25f, 0.3f},
                                          .projection = projection->get(),
                                          .cls_token = cls.data(),
                                          .positions = positions.empty() ? nullptr : positions.data(),
                                          .grid = grid,
                                          .tokens = tokens.data()})
                  .ok());
  return tokens;
}

TEST(CudaVision, PatchesAreThePixelsNormalised) {
  std::mt19937 random(1);
  for (const int64_t size : {1, 7, 16}) {
    const Images images = MakeImages(random, size);
    const int64_t width = 3 * size * size;
    // Through the identity, the reference's tokens are the patches.
    std::vector<float> identity(width * width, 0.0f);
    for (int64_t i = 0; i < width; ++i) identity[i * (width + 1)] = 1;
    const std::vector<float> tokens = ReferenceTokens(images, size, width, identity, std::vector<float>(width), {}, 0);
    std::vector<float> want;
    for (size_t i = 0; i < images.images.size(); ++i) {
      want.insert(want.end(), tokens.begin() + (images.offsets[i] + 1) * width,
                  tokens.begin() + images.offsets[i + 1] * width);
    }
    for (const DataType type : kTypes) {
      Buffer patches(type, images.patches * width);
      const LaunchResult result = ExtractPatches({.images = images.on_device.data(),
                                                  .image_count = static_cast<int64_t>(images.images.size()),
                                                  .patch_count = images.patches,
                                                  .patch_size = size,
                                                  .mean = {0.4f, 0.5f, 0.6f},
                                                  .std = {0.2f, 0.25f, 0.3f},
                                                  .type = type,
                                                  .patches = patches.data()},
                                                 nullptr);
      ASSERT_TRUE(result.ok()) << result.fault;
      EXPECT_TRUE(patches.guards_intact());
      EXPECT_EQ(patches.values(), Buffer::Of(type, want).values()) << "size " << size;
    }
  }
}

TEST(CudaVision, TokensAreProjectionsWithClassTokenAndPositions) {
  std::mt19937 random(2);
  const Images images = MakeImages(random, 1);
  for (const int64_t width : {5, 192}) {
    for (const int64_t grid : {0, 4, 7}) {
      const std::vector<float> weight = Normal(random, width * 3), cls = Normal(random, width);
      const std::vector<float> positions = grid == 0 ? std::vector<float>() : Normal(random, (1 + grid * grid) * width);
      const std::vector<float> want = ReferenceTokens(images, 1, width, weight, cls, positions, grid);
      // The projections are the tokens that the reference has without positions.
      const std::vector<float> bare = ReferenceTokens(images, 1, width, weight, cls, {}, 0);
      std::vector<float> projections;
      for (size_t i = 0; i < images.images.size(); ++i) {
        projections.insert(projections.end(), bare.begin() + (images.offsets[i] + 1) * width,
                           bare.begin() + images.offsets[i + 1] * width);
      }
      Buffer tokens(DataType::kFloat32, images.offsets.back() * width);
      const LaunchResult result = PlacePatches({.images = images.on_device.data(),
                                                .image_count = static_cast<int64_t>(images.images.size()),
                                                .patch_count = images.patches,
                                                .width = width,
                                                .projections = projections.data(),
                                                .cls_token = cls.data(),
                                                .positions = positions.empty() ? nullptr : positions.data(),
                                                .grid = grid,
                                                .tokens = tokens.floats()},
                                               nullptr);
      ASSERT_TRUE(result.ok()) << result.fault;
      EXPECT_TRUE(tokens.guards_intact());
      EXPECT_TRUE(Near(tokens.values(), want, 1e-6)) << width << " grid " << grid;
    }
  }
}

std::vector<float> RunPool(const std::vector<float>& x, const std::vector<int64_t>& offsets, int64_t width,
                           PoolKind kind, const NormParameters& norm) {
  Buffer output(DataType::kFloat32, (static_cast<int64_t>(offsets.size()) - 1) * width);
  const PoolArgs args{x.data(), offsets, width, norm, kind, output.floats()};
  Buffer workspace(DataType::kFloat32, PoolWorkspaceBytes(args) / 4);
  const LaunchResult result = Pool(args, offsets.data(), workspace.data(), nullptr);
  EXPECT_TRUE(result.ok()) << result.fault;
  EXPECT_TRUE(output.guards_intact() && workspace.guards_intact());
  return output.values();
}

constexpr PoolKind kKinds[] = {PoolKind::kMean, PoolKind::kFirst, PoolKind::kMax, PoolKind::kLast};

TEST(CudaPool, EqualsTheReferenceAlsoAlone) {
  std::mt19937 random(3);
  const std::vector<int64_t> offsets = testing::Offsets({1, 2, 63, 64, 65, 1, 500, 256, 1100});
  for (const int64_t width : {1, 30, 192, 300}) {
    const std::vector<float> x = Normal(random, offsets.back() * width, 1, 2);
    const std::vector<float> gamma = Normal(random, width), beta = Normal(random, width);
    for (const bool normed : {false, true}) {
      const NormParameters norm = normed ? NormParameters{gamma.data(), beta.data(), 1e-6f} : NormParameters{};
      for (const PoolKind kind : kKinds) {
        std::vector<float> want((offsets.size() - 1) * width);
        const auto context = testing::MakeContext(ReferenceOperations(), 1);
        ASSERT_TRUE(ReferenceOperations().pool(*context, {x.data(), offsets, width, norm, kind, want.data()}).ok());
        const std::vector<float> got = RunPool(x, offsets, width, kind, norm);
        EXPECT_TRUE(Near(got, want, 1e-6)) << width << " kind " << static_cast<int>(kind);
        for (size_t s = 0; s + 1 < offsets.size(); s += 3) {
          const std::vector<float> alone(x.begin() + offsets[s] * width, x.begin() + offsets[s + 1] * width);
          EXPECT_EQ(RunPool(alone, {0, offsets[s + 1] - offsets[s]}, width, kind, norm),
                    std::vector<float>(got.begin() + s * width, got.begin() + (s + 1) * width));
        }
      }
    }
  }
}

TEST(CudaPool, WideRowsEqualTheReference) {
  std::mt19937 random(4);
  const std::vector<int64_t> offsets = {0, 70, 73};
  for (const int64_t width : {768, 1536}) {
    const std::vector<float> x = Normal(random, offsets.back() * width), gamma = Normal(random, width),
                             beta = Normal(random, width);
    const NormParameters norm{gamma.data(), beta.data(), 1e-6f};
    std::vector<float> want(2 * width);
    const auto context = testing::MakeContext(ReferenceOperations(), 1);
    ASSERT_TRUE(
        ReferenceOperations().pool(*context, {x.data(), offsets, width, norm, PoolKind::kMean, want.data()}).ok());
    EXPECT_TRUE(Near(RunPool(x, offsets, width, PoolKind::kMean, norm), want, 1e-6)) << width;
  }
}

TEST(CudaPool, NaNComesThrough) {
  std::mt19937 random(5);
  for (const PoolKind kind : {PoolKind::kMean, PoolKind::kMax}) {
    for (const int64_t token : {0, 77, 149}) {
      std::vector<float> x = Normal(random, 150 * 8);
      x[token * 8 + 3] = std::nanf("");
      const std::vector<float> got = RunPool(x, {0, 150}, 8, kind, {});
      for (int i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(got[i]), i == 3);
    }
  }
}

}  // namespace
}  // namespace lion::cuda
