// What kernels are written against: CUDA itself under nvcc; under the host compiler the same names from
// emulated/device.h, where a block's threads are fibers, so that the kernels' logic is tested without a GPU. Beyond
// CUDA's own names this header has shared memory whose bounds the host checks, and the tensor-core instructions, in
// PTX's fragment layouts. Of a mask of lanes only the full one is allowed.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "kernels/cuda/emulated/device.h"
#endif

namespace lion::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kWarp = 32;

// As it lies in memory; arithmetic is float32.
struct BFloat16 {
  uint16_t bits;
};

// Bytes that SharedMemory::Take takes for `count` elements.
template <typename T>
__device__ __host__ constexpr int SharedBytes(int count) {
  return (count * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
}

#ifdef __CUDACC__

// An array in shared memory.
template <typename T>
class Shared {
 public:
  Shared() = default;
  __device__ __forceinline__ Shared(T* data, int) : data_(data) {}
  __device__ __forceinline__ T& operator[](int i) const { return data_[i]; }
  // Elements [i, i + 16 bytes), aligned to 16 bytes.
  __device__ __forceinline__ uint4& Vector(int i) const { return *reinterpret_cast<uint4*>(data_ + i); }

 private:
  T* data_;
};

extern __shared__ uint4 lion_shared_memory[];

// The block's dynamic shared memory, handed out in pieces; every thread takes the same ones in the same order.
class SharedMemory {
 public:
  // Of kBytes in all, as the kernel is launched with; scripts/cuda_resources.sh reads it in the PTX.
  template <int kBytes>
  static __device__ __forceinline__ SharedMemory Of() {
    asm volatile("// dynamic shared memory: %0" ::"n"(kBytes));
    return SharedMemory();
  }
  template <typename T>
  __device__ __forceinline__ Shared<T> Take(int count) {
    T* const data = reinterpret_cast<T*>(reinterpret_cast<char*>(lion_shared_memory) + taken_);
    taken_ += SharedBytes<T>(count);
    return Shared<T>(data, count);
  }

 private:
  int taken_ = 0;
};

// Two values rounded to nearest even; `low` is in the low half, which comes first in memory.
__device__ __forceinline__ uint32_t PackBFloat16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// mma.sync.m16n8k16, row-major A and column-major B in bfloat16: c += a b. With g = lane / 4 and t = lane % 4, of the
// elements (row, column), two to a register:
//   a: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with its right neighbour
//   b: (2t, g), (2t + 8, g), each with its lower neighbour
//   c: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
__device__ __forceinline__ void MmaBFloat16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same with operands that are sums of three parts each, one smaller than the other: their six largest products, the
// smallest first.
__device__ __forceinline__ void MmaThreeParts(float (&c)[4], const uint32_t (&a)[3][4], const uint32_t (&b)[3][2]) {
  MmaBFloat16(c, a[2], b[0]);
  MmaBFloat16(c, a[0], b[2]);
  MmaBFloat16(c, a[1], b[1]);
  MmaBFloat16(c, a[1], b[0]);
  MmaBFloat16(c, a[0], b[1]);
  MmaBFloat16(c, a[0], b[0]);
}

// ldmatrix.x4: four 8 x 8 matrices of 16-bit elements. Lane l gives row l % 8 of matrix l / 8: the 8 elements from `i`
// on. out[m]: of matrix m, elements (g, 2t) and (g, 2t + 1); transposed: (2t, g) and (2t + 1, g).
template <bool kTransposed>
__device__ __forceinline__ void LoadMatrices(uint32_t (&out)[4], const Shared<BFloat16>& from, int i) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&from[i]));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
  }
}

#else

using emulation::LoadMatrices;
using emulation::MmaBFloat16;
using emulation::MmaThreeParts;
using emulation::PackBFloat16;
using emulation::Shared;
using emulation::SharedMemory;

#endif

__device__ __forceinline__ float LowBFloat16(uint32_t packed) { return __uint_as_float(packed << 16); }
__device__ __forceinline__ float HighBFloat16(uint32_t packed) { return __uint_as_float(packed & 0xffff0000u); }
__device__ __forceinline__ BFloat16 RoundBFloat16(float value) {
  return {static_cast<uint16_t>(PackBFloat16(value, 0.0f))};
}

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(BFloat16 value) { return LowBFloat16(value.bits); }
__device__ __forceinline__ void Assign(float& to, float value) { to = value; }
__device__ __forceinline__ void Assign(BFloat16& to, float value) { to = RoundBFloat16(value); }

}  // namespace lion::cuda
