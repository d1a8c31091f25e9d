// Products of a warp from tiles in shared memory, alike for bfloat16 and float32 operands. A float32 operand is the sum
// of three bfloat16 ones (8 bits each make its 24), its product six of theirs: products as exact as float32's,
// sums as good as the tensor cores' additions, which tests on the host do not show. Slow: for tests.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.h"

namespace lion::cuda {

template <typename T>
inline constexpr int kParts = std::is_same_v<T, BFloat16> ? 1 : 3;

// Elements from one row of a tile to the next: 16 bytes more than a row holds, so that eight rows lie in different
// banks.
template <typename T>
__device__ __host__ constexpr int Pitch(int columns) {
  return columns + 16 / static_cast<int>(sizeof(T));
}

// 16 x 16 and 16 x 8 elements; whose is what, device.h says.
template <typename T>
struct FragmentA {
  uint32_t part[kParts<T>][4];
};
template <typename T>
struct FragmentB {
  uint32_t part[kParts<T>][2];
};

__device__ __forceinline__ void SplitPair(float low, float high, uint32_t& first, uint32_t& second, uint32_t& third) {
  first = PackBFloat16(low, high);
  low -= LowBFloat16(first);
  high -= HighBFloat16(first);
  second = PackBFloat16(low, high);
  third = PackBFloat16(low - LowBFloat16(second), high - HighBFloat16(second));
}

// The elements that this lane holds, in the order of `part`.
__device__ __forceinline__ void MakeA(const float (&values)[8], FragmentA<BFloat16>& a) {
#pragma unroll
  for (int r = 0; r < 4; ++r) a.part[0][r] = PackBFloat16(values[2 * r], values[2 * r + 1]);
}
__device__ __forceinline__ void MakeA(const float (&values)[8], FragmentA<float>& a) {
#pragma unroll
  for (int r = 0; r < 4; ++r) SplitPair(values[2 * r], values[2 * r + 1], a.part[0][r], a.part[1][r], a.part[2][r]);
}

// c += a b
__device__ __forceinline__ void Multiply(float (&c)[4], const FragmentA<BFloat16>& a, const FragmentB<BFloat16>& b) {
  MmaBFloat16(c, a.part[0], b.part[0]);
}
__device__ __forceinline__ void Multiply(float (&c)[4], const FragmentA<float>& a, const FragmentB<float>& b) {
  MmaThreeParts(c, a.part, b.part);
}

// A[m, k] = tile[row + m, column + k] as float32 values of this lane.
__device__ __forceinline__ void LoadAValues(const Shared<float>& tile, int pitch, int row, int column,
                                            float (&values)[8]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int at = (row + lane / 4 + r % 2 * 8) * pitch + column + lane % 4 * 2 + r / 2 * 8;
    values[2 * r] = tile[at];
    values[2 * r + 1] = tile[at + 1];
  }
}
__device__ __forceinline__ void LoadA(const Shared<float>& tile, int pitch, int row, int column, FragmentA<float>& a) {
  float values[8];
  LoadAValues(tile, pitch, row, column, values);
  MakeA(values, a);
}
__device__ __forceinline__ void LoadA(const Shared<BFloat16>& tile, int pitch, int row, int column,
                                      FragmentA<BFloat16>& a) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  LoadMatrices<false>(a.part[0], tile, (row + lane % 16) * pitch + column + lane / 16 * 8);
}
__device__ __forceinline__ void LoadAValues(const Shared<BFloat16>& tile, int pitch, int row, int column,
                                            float (&values)[8]) {
  FragmentA<BFloat16> a;
  LoadA(tile, pitch, row, column, a);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    values[2 * r] = LowBFloat16(a.part[0][r]);
    values[2 * r + 1] = HighBFloat16(a.part[0][r]);
  }
}

// A[m, k] = tile[row + k, column + m].
__device__ __forceinline__ void LoadATransposed(const Shared<float>& tile, int pitch, int row, int column,
                                                FragmentA<float>& a) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float values[8];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int at = (row + lane % 4 * 2 + r / 2 * 8) * pitch + column + lane / 4 + r % 2 * 8;
    values[2 * r] = tile[at];
    values[2 * r + 1] = tile[at + pitch];
  }
  MakeA(values, a);
}
__device__ __forceinline__ void LoadATransposed(const Shared<BFloat16>& tile, int pitch, int row, int column,
                                                FragmentA<BFloat16>& a) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  LoadMatrices<true>(a.part[0], tile, (row + lane % 8 + lane / 16 * 8) * pitch + column + lane / 8 % 2 * 8);
}

// Two neighbours, n from 0 on and from 8 on: B[k, n] = tile[row + n, column + k].
__device__ __forceinline__ void LoadB(const Shared<float>& tile, int pitch, int row, int column,
                                      FragmentB<float> (&b)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int at = (row + lane / 4 + r / 2 * 8) * pitch + column + lane % 4 * 2 + r % 2 * 8;
    auto& part = b[r / 2].part;
    SplitPair(tile[at], tile[at + 1], part[0][r % 2], part[1][r % 2], part[2][r % 2]);
  }
}
__device__ __forceinline__ void LoadB(const Shared<BFloat16>& tile, int pitch, int row, int column,
                                      FragmentB<BFloat16> (&b)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint32_t loaded[4];
  LoadMatrices<false>(loaded, tile, (row + lane % 8 + lane / 16 * 8) * pitch + column + lane / 8 % 2 * 8);
#pragma unroll
  for (int r = 0; r < 4; ++r) b[r / 2].part[0][r % 2] = loaded[r];
}

// The same of B[k, n] = tile[row + k, column + n].
__device__ __forceinline__ void LoadBTransposed(const Shared<float>& tile, int pitch, int row, int column,
                                                FragmentB<float> (&b)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int at = (row + lane % 4 * 2 + r % 2 * 8) * pitch + column + lane / 4 + r / 2 * 8;
    auto& part = b[r / 2].part;
    SplitPair(tile[at], tile[at + pitch], part[0][r % 2], part[1][r % 2], part[2][r % 2]);
  }
}
__device__ __forceinline__ void LoadBTransposed(const Shared<BFloat16>& tile, int pitch, int row, int column,
                                                FragmentB<BFloat16> (&b)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint32_t loaded[4];
  LoadMatrices<true>(loaded, tile, (row + lane % 16) * pitch + column + lane / 16 * 8);
#pragma unroll
  for (int r = 0; r < 4; ++r) b[r / 2].part[0][r % 2] = loaded[r];
}

}  // namespace lion::cuda
