// Residual and norm, GELU and L2 norm of the GPU, on the host, against the float64 reference.

#include "kernels/cuda/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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
// Float32 sums of a row; one rounding to bfloat16, at most 2^-8 of a value.
double Bound(DataType type) { return type == DataType::kFloat32 ? 1e-6 : 1.0 / 256; }

TEST(CudaAddNorm, EqualsTheReferenceForEveryWidth) {
  std::mt19937 random(1);
  for (const int64_t columns : {1, 3, 64, 192, 256, 257, 384, 768, 1022, 1024, 1280, 1536}) {
    for (const DataType type : kTypes) {
      const int64_t rows = 5;
      Buffer x = Buffer::Of(DataType::kFloat32, Normal(random, rows * columns, 3, 1));
      Buffer added = Buffer::Of(type, Normal(random, rows * columns)), normed(type, rows * columns);
      Buffer normed_float(DataType::kFloat32, rows * columns), sum(DataType::kFloat32, rows * columns);
      const std::vector<float> gamma = Normal(random, columns, 0.2f, 1), beta = Normal(random, columns);
      const std::vector<float> bias = Normal(random, columns), in = x.values(), add = added.values();
      const NormParameters norm{gamma.data(), beta.data(), 1e-6f};
      const LaunchResult result = AddNorm({.x = x.floats(),
                                           .added = added.data(),
                                           .bias = bias.data(),
                                           .type = type,
                                           .rows = rows,
                                           .columns = columns,
                                           .sum = sum.floats(),
                                           .norm = norm,
                                           .normed_float = normed_float.floats(),
                                           .normed = normed.data()},
                                          nullptr);
      ASSERT_TRUE(result.ok()) << result.fault;
      EXPECT_TRUE(sum.guards_intact() && normed.guards_intact() && normed_float.guards_intact());
      std::vector<float> want_sum(rows * columns), want(rows * columns);
      for (int64_t i = 0; i < rows * columns; ++i) want_sum[i] = in[i] + add[i] + bias[i % columns];
      EXPECT_TRUE(Near(sum.values(), want_sum, 1e-7)) << columns;
      const auto context = testing::MakeContext(ReferenceOperations(), 1);
      ASSERT_TRUE(ReferenceOperations().layer_norm(*context, {want_sum.data(), rows, columns, norm, want.data()}).ok());
      EXPECT_TRUE(Near(normed_float.values(), want, 1e-6)) << columns;
      EXPECT_TRUE(Near(normed.values(), want, Bound(type))) << columns;
    }
  }
}

// As the encoders call it: pre-norm keeps the sum in x, post-norm the normed rows.
TEST(CudaAddNorm, WritesOverItsInputs) {
  std::mt19937 random(2);
  const int64_t rows = 9, columns = 192;
  const std::vector<float> in = Normal(random, rows * columns), gamma(columns, 2), beta(columns, 1);
  const NormParameters norm{gamma.data(), beta.data(), 1e-12f};
  std::vector<float> want = in;
  const auto context = testing::MakeContext(ReferenceOperations(), 1);
  for (float& value : want) value *= 2;
  const std::vector<float> sum = want;
  ASSERT_TRUE(ReferenceOperations().layer_norm(*context, {sum.data(), rows, columns, norm, want.data()}).ok());
  for (const bool post_norm : {false, true}) {
    std::vector<float> x = in, added = in;
    AddNormArgs args{.x = x.data(), .added = added.data(), .rows = rows, .columns = columns, .norm = norm};
    (post_norm ? args.normed_float : args.sum) = x.data();
    args.normed = added.data();
    ASSERT_TRUE(AddNorm(args, nullptr).ok());
    EXPECT_TRUE(Near(x, post_norm ? want : sum, 1e-6));
    EXPECT_TRUE(Near(added, want, 1e-6));
  }
}

TEST(CudaAddNorm, NothingIsWrittenWithoutAPlaceAndNaNComesThrough) {
  std::vector<float> x(2 * 40, 1.0f), gamma(40, 1.0f), beta(40, 0.0f), normed(2 * 40, -1.0f);
  x[45] = std::nanf("");
  const std::vector<float> before(x.begin(), x.begin() + 40);
  ASSERT_TRUE(AddNorm({.x = x.data(),
                       .rows = 2,
                       .columns = 40,
                       .norm = {gamma.data(), beta.data(), 1e-6f},
                       .normed_float = normed.data()},
                      nullptr)
                  .ok());
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 40), before);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(normed[i], 0);
  for (int i = 40; i < 80; ++i) EXPECT_TRUE(std::isnan(normed[i]));
  ASSERT_TRUE(AddNorm({.x = x.data(), .rows = 0, .columns = 40}, nullptr).ok());
}

TEST(CudaAddNorm, RefusesARowThatNoWarpHolds) {
  const float x = 0;
  const AddNormArgs args{.x = &x, .rows = 1, .columns = kMaxNormColumns + 1};
  EXPECT_THAT(AddNorm(args, nullptr).fault, ::testing::HasSubstr("want 1 to 1536"));
}

TEST(CudaNormalizeRows, RefusesMoreBlocksThanAGridHas) {
  EXPECT_THAT(NormalizeRows(nullptr, int64_t{1} << 40, 4, nullptr).fault, ::testing::HasSubstr("too many rows"));
}

TEST(CudaGelu, IsTheExactOneWithTheBiasInside) {
  std::mt19937 random(3);
  for (const int64_t columns : {1, 7, 16, 100, 768}) {
    for (const DataType type : kTypes) {
      for (const bool biased : {false, true}) {
        const int64_t rows = 7;
        Buffer x = Buffer::Of(type, Normal(random, rows * columns, 3)), out(type, rows * columns);
        const std::vector<float> bias = Normal(random, columns), in = x.values();
        std::vector<double> want(in.begin(), in.end());
        for (int64_t i = 0; i < rows * columns; ++i) {
          if (biased) want[i] += bias[i % columns];
          want[i] *= 0.5 * (1 + std::erf(want[i] * std::sqrt(0.5)));
        }
        GeluArgs args{x.data(), biased ? bias.data() : nullptr, type, rows, columns, out.data()};
        ASSERT_TRUE(Gelu(args, nullptr).ok());
        EXPECT_TRUE(Near(out.values(), want, Bound(type))) << columns;
        EXPECT_TRUE(out.guards_intact());
        args.output = x.data();
        ASSERT_TRUE(Gelu(args, nullptr).ok());
        EXPECT_EQ(x.values(), out.values());
        EXPECT_TRUE(x.guards_intact());
      }
    }
  }
  // Where the tanh approximation is 4e-4 off.
  std::vector<float> x = {2.2f};
  ASSERT_TRUE(Gelu({x.data(), nullptr, DataType::kFloat32, 1, 1, x.data()}, nullptr).ok());
  EXPECT_NEAR(x[0], 2.2 * 0.5 * (1 + std::erf(2.2 * std::sqrt(0.5))), 1e-6);
}

TEST(CudaNormalizeRows, DividesByTheL2NormAndLeavesZeros) {
  std::mt19937 random(4);
  for (const int64_t columns : {1, 31, 192, 1000}) {
    std::vector<float> x = Normal(random, 6 * columns);
    std::fill_n(x.begin() + 2 * columns, columns, 0.0f);
    for (int64_t i = 0; i < columns; ++i) x[3 * columns + i] = std::numeric_limits<float>::max() / 2;
    std::vector<double> want(x.begin(), x.end());
    for (int64_t r = 0; r < 6; ++r) {
      double squares = 0;
      for (int64_t i = 0; i < columns; ++i) squares += want[r * columns + i] * want[r * columns + i];
      for (int64_t i = 0; i < columns && r != 2; ++i) want[r * columns + i] /= std::sqrt(squares);
    }
    ASSERT_TRUE(NormalizeRows(x.data(), 6, columns, nullptr).ok());
    EXPECT_TRUE(Near(x, want, 1e-6));
  }
}

}  // namespace
}  // namespace lion::cuda
