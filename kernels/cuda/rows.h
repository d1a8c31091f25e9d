// Rows of activations from global memory, eight elements to a thread.
#pragma once

#include <cmath>
#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/types.h"

namespace lion::cuda {

// Threads of a block, in all kernels with tiles.
inline constexpr int kThreads = 128;

// Elements [first, first + 8) of a row of `width`; 0 beyond it. vectors: the row is aligned to 16 bytes, and all of the
// eight elements or none are in it.
__device__ __forceinline__ void LoadEight(const float* row, int first, int width, bool vectors, float (&x)[8]) {
  if (vectors && first < width) {
    const float4 a = *reinterpret_cast<const float4*>(row + first);
    const float4 b = *(reinterpret_cast<const float4*>(row + first) + 1);
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = first + i < width ? row[first + i] : 0.0f;
}
__device__ __forceinline__ void LoadEight(const BFloat16* row, int first, int width, bool vectors, float (&x)[8]) {
  if (vectors && first < width) {
    const uint4 a = *reinterpret_cast<const uint4*>(row + first);
    const uint32_t pairs[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) x[2 * i] = LowBFloat16(pairs[i]), x[2 * i + 1] = HighBFloat16(pairs[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = first + i < width ? ToFloat(row[first + i]) : 0.0f;
}

__device__ __forceinline__ void StoreEight(const Shared<float>& tile, int i, const float (&x)[8]) {
#pragma unroll
  for (int half = 0; half < 8; half += 4) {
    tile.Vector(i + half) = {__float_as_uint(x[half]), __float_as_uint(x[half + 1]), __float_as_uint(x[half + 2]),
                             __float_as_uint(x[half + 3])};
  }
}
__device__ __forceinline__ void StoreEight(const Shared<BFloat16>& tile, int i, const float (&x)[8]) {
  tile.Vector(i) = {PackBFloat16(x[0], x[1]), PackBFloat16(x[2], x[3]), PackBFloat16(x[4], x[5]),
                    PackBFloat16(x[6], x[7])};
}

// phi of a row that kLanes neighbouring lanes hold, eight elements each, of which the first `valid` exist.
template <int kLanes>
__device__ __forceinline__ void ApplyFeatureMap(FeatureMap map, int valid, float (&x)[8]) {
  if (map == FeatureMap::kIdentity) return;
  if (map == FeatureMap::kEluPlusOne) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < valid) x[i] = x[i] > 0 ? x[i] + 1 : expf(x[i]);
    }
    return;
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < valid) x[i] = x[i] / (1 + expf(-x[i])) + 0.5f;
    squares += x[i] * x[i];
  }
#pragma unroll
  for (int lane = 1; lane < kLanes; lane *= 2) squares += __shfl_xor_sync(kAllLanes, squares, lane);
  const float scale = rsqrtf(squares);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] *= scale;
}

// kRows rows, of which `count` exist, by all threads of the block: store(r, column, eight elements of phi(row(r))), 0
// where there are none.
template <int kWidth, int kRows, typename T, class Row, class Store>
__device__ __forceinline__ void ForRows(int count, int width, bool vectors, FeatureMap map, const Row& row,
                                        const Store& store) {
  constexpr int kLanes = kWidth / 8;
  constexpr int kAtOnce = kThreads / kLanes;
  static_assert(kRows % kAtOnce == 0);
  const int column = static_cast<int>(threadIdx.x) % kLanes * 8;
  // Loads of four rows are on their way at a time; more would need more registers than there are.
#pragma unroll 4
  for (int i = 0; i < kRows / kAtOnce; ++i) {
    const int r = i * kAtOnce + static_cast<int>(threadIdx.x) / kLanes;
    float x[8] = {};
    if (r < count) LoadEight(row(r), column, width, vectors, x);
    ApplyFeatureMap<kLanes>(map, width - column, x);
    if (r >= count) {
#pragma unroll
      for (float& value : x) value = 0;
    }
    store(r, column, x);
  }
}

// Elements `column` and column + 1 of a row of `width`, where they exist. With an even width, rows are aligned to both.
__device__ __forceinline__ void StorePair(float* row, int column, int width, float a, float b) {
  if (width % 2 == 0) {
    if (column < width) *reinterpret_cast<float2*>(row + column) = {a, b};
    return;
  }
  if (column < width) row[column] = a;
  if (column + 1 < width) row[column + 1] = b;
}
__device__ __forceinline__ void StorePair(BFloat16* row, int column, int width, float a, float b) {
  if (width % 2 == 0) {
    if (column < width) *reinterpret_cast<uint32_t*>(row + column) = PackBFloat16(a, b);
    return;
  }
  if (column < width) row[column] = RoundBFloat16(a);
  if (column + 1 < width) row[column + 1] = RoundBFloat16(b);
}

}  // namespace lion::cuda
