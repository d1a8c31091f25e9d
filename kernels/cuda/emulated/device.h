// CUDA's names for the host compiler, on the fibers of block.h. Only kernels/cuda/device.h and the sources here include
// this.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "kernels/cuda/emulated/block.h"

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's own names.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__

extern constinit thread_local lion::cuda::emulation::Index3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(8) float2 {
  float x, y;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
template <typename T>
inline T __ldg(const T* p) {
  return *p;
}

inline void __syncthreads() { lion::cuda::emulation::WaitForBlock(); }
inline void __syncwarp() { lion::cuda::emulation::MeetWarp("__syncwarp", nullptr, 0); }

namespace lion::cuda::emulation {

// value of lane source(own lane).
template <typename T, class Source>
T Shuffle(const char* what, unsigned mask, T value, const Source& source) {
  static_assert(sizeof(T) <= WarpExchange::kBytes);
  if (mask != 0xffffffffu) Fail(std::string(what) + ": mask " + std::to_string(mask) + ", expected all lanes");
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::memcpy(&value, MeetWarp(what, &value, sizeof(T)).in[source(lane)], sizeof(T));
  return value;
}

}  // namespace lion::cuda::emulation

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return lion::cuda::emulation::Shuffle("__shfl_sync", mask, value, [=](int) { return lane & 31; });
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return lion::cuda::emulation::Shuffle("__shfl_xor_sync", mask, value, [=](int lane) { return (lane ^ bits) & 31; });
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, int by) {
  return lion::cuda::emulation::Shuffle("__shfl_up_sync", mask, value,
                                        [=](int lane) { return lane < by ? lane : lane - by; });
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, int by) {
  return lion::cuda::emulation::Shuffle("__shfl_down_sync", mask, value,
                                        [=](int lane) { return lane + by > 31 ? lane : lane + by; });
}

// Threads change only where they wait for each other.
template <typename T>
T atomicAdd(T* to, T value) {
  const T old = *to;
  *to += value;
  return old;
}
template <typename T>
T atomicMax(T* to, T value) {
  const T old = *to;
  if (value > old) *to = value;
  return old;
}
// NOLINTEND(bugprone-reserved-identifier)

namespace lion::cuda {
struct BFloat16;
}

namespace lion::cuda::emulation {

template <typename T>
class Shared {
 public:
  Shared() = default;
  Shared(T* data, int size) : data_(data), size_(size) {}
  T& operator[](int i) const { return *Range(i, 1); }
  uint4& Vector(int i) const {
    T* const vector = Range(i, 16 / static_cast<int>(sizeof(T)));
    if (reinterpret_cast<uintptr_t>(vector) % 16 != 0) {
      Fail("vector at element " + std::to_string(i) + " of shared memory is not aligned to 16 bytes");
    }
    return *reinterpret_cast<uint4*>(vector);
  }

 private:
  T* Range(int i, int count) const {
    if (i < 0 || i > size_ - count) {
      Fail("elements [" + std::to_string(i) + ", " + std::to_string(i + count) + ") of " + std::to_string(size_) +
           " in shared memory");
    }
    return data_ + i;
  }

  T* data_ = nullptr;
  int size_ = 0;
};

class SharedMemory {
 public:
  template <int kBytes>
  static SharedMemory Of() {
    if (SharedSize() != kBytes) {
      Fail("launched with " + std::to_string(SharedSize()) + " bytes of shared memory, expected " +
           std::to_string(kBytes));
    }
    return SharedMemory();
  }
  template <typename T>
  Shared<T> Take(int count) {
    std::byte* const data = SharedBase() + taken_;
    taken_ += (static_cast<int64_t>(count) * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 16;
    if (taken_ > SharedSize()) {
      Fail("takes " + std::to_string(taken_) + " of " + std::to_string(SharedSize()) + " bytes of shared memory");
    }
    return Shared<T>(reinterpret_cast<T*>(data), count);
  }

 private:
  int64_t taken_ = 0;
};

uint32_t PackBFloat16(float low, float high);
void MmaBFloat16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
// The same sums in one exchange instead of six: exchanges are what tests wait for.
void MmaThreeParts(float (&c)[4], const uint32_t (&a)[3][4], const uint32_t (&b)[3][2]);
// `row`: this lane's 16 bytes.
void LoadMatrixRows(uint32_t (&out)[4], const uint4& row, bool transposed);

template <bool kTransposed>
void LoadMatrices(uint32_t (&out)[4], const Shared<BFloat16>& from, int i) {
  LoadMatrixRows(out, from.Vector(i), kTransposed);
}

}  // namespace lion::cuda::emulation
