// A row that a warp holds in registers, and its layer norm.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch_result.h"
#include "kernels/cuda/linear.h"

namespace lion::cuda {

struct NormKernelArgs {
  const float* gamma;
  const float* beta;
  float epsilon;
};

template <typename T>
__device__ __forceinline__ T WarpSum(T x) {
#pragma unroll
  for (int by = 1; by < kWarp; by *= 2) x += __shfl_xor_sync(kAllLanes, x, by);
  return x;
}

// At most kGroups * 128 elements; a lane has four neighbours of each 128. vectors: columns are a multiple of 4, and
// rows aligned to 4 elements.
template <int kGroups>
struct WarpRow {
  float value[kGroups][4];

  static __device__ __forceinline__ int Column(int group) {
    return (group * kWarp + static_cast<int>(threadIdx.x) % kWarp) * 4;
  }

  // use(column, four values) for the groups that begin inside the row.
  template <class Use>
  __device__ __forceinline__ void ForGroups(int columns, const Use& use) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (Column(g) < columns) use(Column(g), value[g]);
    }
  }

  // 0 past the row's end.
  template <typename T>
  __device__ __forceinline__ void Load(const T* row, int columns, bool vectors) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) LoadFour(row, Column(g), columns, vectors, value[g]);
  }

  template <typename T>
  __device__ __forceinline__ void Add(const T* row, int columns, bool vectors) {
    ForGroups(columns, [&](int column, float(&x)[4]) {
      float add[4];
      LoadFour(row, column, columns, vectors, add);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] += add[i];
    });
  }

  template <typename T>
  __device__ __forceinline__ void Store(T* row, int columns, bool vectors) {
    ForGroups(columns, [&](int column, float(&x)[4]) { StoreFour(row, column, columns, vectors, x); });
  }

  __device__ __forceinline__ void Normalize(const NormKernelArgs& norm, int columns, bool vectors) {
    float sum = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) sum += (value[g][0] + value[g][1]) + (value[g][2] + value[g][3]);
    const float mean = WarpSum(sum) / static_cast<float>(columns);
    float squares = 0;
    ForGroups(columns, [&](int column, float(&x)[4]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) squares += column + i < columns ? (x[i] - mean) * (x[i] - mean) : 0.0f;
    });
    const float scale = 1 / sqrtf(WarpSum(squares) / static_cast<float>(columns) + norm.epsilon);
    ForGroups(columns, [&](int column, float(&x)[4]) {
      float gamma[4], beta[4];
      LoadFour(norm.gamma, column, columns, vectors, gamma);
      LoadFour(norm.beta, column, columns, vectors, beta);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
    });
  }

  static __device__ __forceinline__ void LoadFour(const float* row, int first, int columns, bool vectors,
                                                  float (&x)[4]) {
    if (vectors && first < columns) {
      const float4 a = *reinterpret_cast<const float4*>(row + first);
      x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = first + i < columns ? row[first + i] : 0.0f;
  }
  static __device__ __forceinline__ void LoadFour(const BFloat16* row, int first, int columns, bool vectors,
                                                  float (&x)[4]) {
    if (vectors && first < columns) {
      const uint2 a = *reinterpret_cast<const uint2*>(row + first);
      x[0] = LowBFloat16(a.x), x[1] = HighBFloat16(a.x), x[2] = LowBFloat16(a.y), x[3] = HighBFloat16(a.y);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = first + i < columns ? ToFloat(row[first + i]) : 0.0f;
  }
  static __device__ __forceinline__ void StoreFour(float* row, int first, int columns, bool vectors,
                                                   const float (&x)[4]) {
    if (vectors) {
      *reinterpret_cast<float4*>(row + first) = {x[0], x[1], x[2], x[3]};
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i < columns) row[first + i] = x[i];
    }
  }
  static __device__ __forceinline__ void StoreFour(BFloat16* row, int first, int columns, bool vectors,
                                                   const float (&x)[4]) {
    if (vectors) {
      *reinterpret_cast<uint2*>(row + first) = {PackBFloat16(x[0], x[1]), PackBFloat16(x[2], x[3])};
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i < columns) row[first + i] = RoundBFloat16(x[i]);
    }
  }
};

// use.operator()<kGroups>() with room for a row of `columns`.
template <class Use>
LaunchResult DispatchColumns(int64_t columns, const Use& use) {
  static_assert(kMaxNormColumns == 1536, "the fault's words");
  if (columns < 1 || columns > kMaxNormColumns) return {"a row's width is out of range: want 1 to 1536"};
  if (columns <= 256) return use.template operator()<2>();
  if (columns <= 1024) return use.template operator()<8>();
  return use.template operator()<12>();
}

// The last of `count` ascending firsts, of which the first is 0, that is at most i.
__device__ __forceinline__ int FindSequence(const int64_t* firsts, int count, int64_t i) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (__ldg(firsts + middle) <= i ? low : high) = middle;
  }
  return low;
}

}  // namespace lion::cuda
