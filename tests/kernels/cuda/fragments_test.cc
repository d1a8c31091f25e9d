// Products from tiles in shared memory against plain ones.

#include "kernels/cuda/fragments.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/types.h"
#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion::cuda {
namespace {

using ::lion::testing::Near;
using ::lion::testing::Normal;

TEST(Fragments, TheTensorCoreProductHasTheLayoutOfPtx) {
  struct Args {
    const float *a, *b;
    float* c;
  };
  constexpr auto kernel = [](Args p) {
    const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
    // As PTX ISA tells it for .m16n8k16 with .bf16: a0, a1: (g, 2t + i), a2, a3: (g + 8, 2t + i), a4, a5: (g, 2t + 8 +
    // i), a6, a7: (g + 8, 2t + 8 + i); b0, b1: (2t + i, g), b2, b3: (2t + 8 + i, g); c0, c1: (g, 2t + i), c2, c3: (g +
    // 8, ...).
    const auto a = [&](int row, int column) {
      return PackBFloat16(p.a[row * 16 + column], p.a[row * 16 + column + 1]);
    };
    const auto b = [&](int row, int column) {
      return PackBFloat16(p.b[row * 8 + column], p.b[(row + 1) * 8 + column]);
    };
    float c[4] = {1, 2, 3, 4};
    MmaBFloat16(c, {a(g, 2 * t), a(g + 8, 2 * t), a(g, 2 * t + 8), a(g + 8, 2 * t + 8)},
                {b(2 * t, g), b(2 * t + 8, g)});
    for (int i = 0; i < 4; ++i) p.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
  };
  // Small whole numbers: every sum is exact.
  std::vector<float> a(256), b(128), c(128), want(128);
  for (int i = 0; i < 256; ++i) a[i] = static_cast<float>(i * 7 % 31 - 15);
  for (int i = 0; i < 128; ++i) b[i] = static_cast<float>(i * 11 % 29 - 14);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      want[row * 8 + column] = row < 8 ? static_cast<float>(1 + column % 2) : static_cast<float>(3 + column % 2);
      for (int k = 0; k < 16; ++k) want[row * 8 + column] += a[row * 16 + k] * b[k * 8 + column];
    }
  }
  ASSERT_TRUE(Launch<Args>("Mma", +kernel, {1, 1, 1, 32, 0}, nullptr, {a.data(), b.data(), c.data()}).ok());
  EXPECT_EQ(c, want);
}

// C [16, 16] = A [16, 32] B [32, 16] by one warp, each operand stored as it is or transposed.
struct ProductArgs {
  const float *a, *b;
  float* c;
  bool a_transposed, b_transposed, by_values;
};

template <typename T>
__global__ void ProductKernel(const ProductArgs p) {
  constexpr int kPitch = Pitch<T>(32);
  SharedMemory memory;
  const auto a = memory.Take<T>(32 * kPitch), b = memory.Take<T>(32 * kPitch);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 32; i += 32) {
    Assign(p.a_transposed ? a[i % 32 * kPitch + i / 32] : a[i / 32 * kPitch + i % 32], p.a[i]);
    // B lies row by row where it is read transposed, as v does.
    Assign(p.b_transposed ? b[i / 16 * kPitch + i % 16] : b[i % 16 * kPitch + i / 16], p.b[i]);
  }
  __syncwarp();
  float c[2][4] = {};
  for (int k = 0; k < 32; k += 16) {
    FragmentA<T> left;
    FragmentB<T> right[2];
    float values[8];
    if (p.a_transposed) {
      LoadATransposed(a, kPitch, k, 0, left);
    } else if (p.by_values) {
      LoadAValues(a, kPitch, 0, k, values);
      MakeA(values, left);
    } else {
      LoadA(a, kPitch, 0, k, left);
    }
    if (p.b_transposed) {
      LoadBTransposed(b, kPitch, k, 0, right);
    } else {
      LoadB(b, kPitch, 0, k, right);
    }
    Multiply(c[0], left, right[0]);
    Multiply(c[1], left, right[1]);
  }
  for (int i = 0; i < 8; ++i) {
    p.c[(lane / 4 + i / 2 % 2 * 8) * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2] = c[i / 4][i % 4];
  }
}

template <typename T>
void ExpectProducts(DataType type, double bound) {
  std::mt19937 random(1);
  const std::vector<float> a = Normal(random, 16 * 32), b = Normal(random, 32 * 16);
  const auto round = [&](float x) { return type == DataType::kFloat32 ? x : FromBFloat16(ToBFloat16(x)); };
  std::vector<double> want(256, 0.0);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      for (int k = 0; k < 32; ++k) {
        want[row * 16 + column] += static_cast<double>(round(a[row * 32 + k])) * round(b[k * 16 + column]);
      }
    }
  }
  for (int kind = 0; kind < 6; ++kind) {
    std::vector<float> c(256);
    const ProductArgs args{a.data(), b.data(), c.data(), kind / 2 == 1, kind % 2 == 1, kind / 2 == 2};
    const int bytes = 2 * SharedBytes<T>(32 * Pitch<T>(32));
    const LaunchResult result = Launch("Product", &ProductKernel<T>, {1, 1, 1, 32, bytes}, nullptr, args);
    ASSERT_TRUE(result.ok()) << result.fault;
    EXPECT_TRUE(Near(c, want, bound)) << "kind " << kind;
  }
}

// Sums of 32 exact products in float32.
TEST(Fragments, BFloat16TilesMultiplyHoweverTheyAreStored) { ExpectProducts<BFloat16>(DataType::kBFloat16, 3e-7); }
TEST(Fragments, Float32TilesMultiplyAsExactly) { ExpectProducts<float>(DataType::kFloat32, 3e-7); }

}  // namespace
}  // namespace lion::cuda
