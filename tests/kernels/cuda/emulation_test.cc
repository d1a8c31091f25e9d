// What kernels/cuda/emulated promises to those who write kernels: CUDA's meaning, and a report where a device would
// hang or go astray.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/launch.h"

namespace lion::cuda {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr emulation::RunOrder kOrders[] = {emulation::RunOrder::kLockstep, emulation::RunOrder::kBackward,
                                           emulation::RunOrder::kShuffled};

struct Args {
  float* out = nullptr;
  int n = 0;
};

std::string FaultOf(void (*kernel)(Args), const Grid& grid, const Args& args = {}) {
  const LaunchResult result = Launch("Kernel", kernel, grid, nullptr, args);
  return result.ok() ? "" : result.fault;
}

class Emulation : public ::testing::Test {
 protected:
  ~Emulation() override { emulation::SetRunOrder(emulation::RunOrder::kLockstep); }
};

// Sums over the block, in a tree.
__global__ void SumKernel(const Args a) {
  SharedMemory memory;
  const auto sums = memory.Take<float>(static_cast<int>(blockDim.x));
  const int t = static_cast<int>(threadIdx.x);
  sums[t] = static_cast<float>(t + static_cast<int>(blockIdx.x) * 1000);
  __syncthreads();
  for (int half = static_cast<int>(blockDim.x) / 2; half > 0; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    __syncthreads();
  }
  if (t == 0) a.out[blockIdx.y * gridDim.x + blockIdx.x] = sums[0];
}

TEST_F(Emulation, BarriersOrderTheThreadsOfEveryBlock) {
  for (const auto order : kOrders) {
    emulation::SetRunOrder(order);
    std::vector<float> out(6, -1);
    EXPECT_EQ(FaultOf(&SumKernel, {3, 2, 1, 256, 1024}, {out.data()}), "");
    const float sum = 255 * 128;
    EXPECT_EQ(out, (std::vector<float>{sum, sum + 256000, sum + 512000, sum, sum + 256000, sum + 512000}));
  }
}

__global__ void NoBarrierBeforeReadKernel(const Args a) {
  SharedMemory memory;
  const auto values = memory.Take<float>(64);
  const int t = static_cast<int>(threadIdx.x);
  values[t] = 1;
  a.out[t] = values[63 - t];
}
// Warps read each other's values, then write their next ones.
__global__ void NoBarrierBeforeWriteKernel(const Args a) {
  SharedMemory memory;
  const auto values = memory.Take<float>(64);
  const int t = static_cast<int>(threadIdx.x);
  values[t] = 1;
  __syncthreads();
  const float read = values[__shfl_sync(kAllLanes, 0, 0) + 63 - t];
  values[t] = 2;
  a.out[t] = read;
}

TEST_F(Emulation, AMissingBarrierShows) {
  for (const auto order : kOrders) {
    emulation::SetRunOrder(order);
    std::vector<float> out(64);
    int missing = 0;
    EXPECT_EQ(FaultOf(&NoBarrierBeforeReadKernel, {1, 1, 1, 64, 256}, {out.data()}), "");
    for (const float value : out) missing += std::isnan(value) ? 1 : 0;
    EXPECT_EQ(missing, 32);  // whoever came first
  }
  const auto early = [](emulation::RunOrder order) {
    emulation::SetRunOrder(order);
    std::vector<float> out(64);
    EXPECT_EQ(FaultOf(&NoBarrierBeforeWriteKernel, {1, 1, 1, 64, 256}, {out.data()}), "");
    return std::count(out.begin(), out.end(), 2.0f);
  };
  EXPECT_GT(early(emulation::RunOrder::kBackward), 0);
  EXPECT_GT(early(emulation::RunOrder::kShuffled), 0);
}

__global__ void ReturnBeforeBarrierKernel(const Args a) {
  if (threadIdx.x < 3) return;
  __syncthreads();
  a.out[threadIdx.x] = 1;
}
__global__ void HalfAWarpShufflesKernel(const Args) {
  if (threadIdx.x % 32 < 16) __shfl_xor_sync(kAllLanes, 1.0f, 1);
  __syncthreads();
}
__global__ void LanesInTwoOperationsKernel(const Args) {
  float c[4] = {};
  if (threadIdx.x % 32 < 16) {
    __shfl_xor_sync(kAllLanes, 1.0f, 1);
  } else {
    MmaBFloat16(c, {0, 0, 0, 0}, {0, 0});
  }
}
__global__ void PartialMaskKernel(const Args) { __shfl_xor_sync(0xffffu, 1.0f, 1); }

TEST_F(Emulation, WhatWouldHangIsReported) {
  for (const auto order : kOrders) {
    emulation::SetRunOrder(order);
    std::vector<float> out(64, 0);
    EXPECT_THAT(FaultOf(&ReturnBeforeBarrierKernel, {2, 1, 1, 64, 0}, {out.data()}),
                AllOf(HasSubstr("Kernel: block ("), HasSubstr("deadlock: 3 threads have returned, 61 threads wait in "
                                                              "__syncthreads")));
    EXPECT_THAT(out, Each(0.0f));
    EXPECT_THAT(FaultOf(&HalfAWarpShufflesKernel, {1, 1, 1, 32, 0}),
                HasSubstr("deadlock: 16 threads wait in __shfl_xor_sync, 16 threads wait in __syncthreads"));
    EXPECT_THAT(FaultOf(&LanesInTwoOperationsKernel, {1, 1, 1, 32, 0}), HasSubstr("while lanes of its warp wait in"));
    EXPECT_THAT(FaultOf(&PartialMaskKernel, {1, 1, 1, 32, 0}), HasSubstr("mask 65535, expected all lanes"));
    // And the next launch is as if nothing had been.
    std::vector<float> sum(1);
    EXPECT_EQ(FaultOf(&SumKernel, {1, 1, 1, 64, 256}, {sum.data()}), "");
    EXPECT_EQ(sum[0], 63 * 32);
  }
}

__global__ void OutOfBoundsKernel(const Args a) {
  SharedMemory memory;
  const auto first = memory.Take<float>(6);
  const auto second = memory.Take<float>(4);
  second[0] = 0;
  if (threadIdx.x == 5) first[a.n] = 1;
}
__global__ void VectorOutOfBoundsKernel(const Args a) {
  SharedMemory memory;
  memory.Take<BFloat16>(30).Vector(a.n) = {};
}
__global__ void TakeTooMuchKernel(const Args) {
  SharedMemory memory;
  memory.Take<float>(33);
}

TEST_F(Emulation, BoundsOfSharedMemoryAreChecked) {
  const Grid grid{1, 1, 1, 32, 128};
  EXPECT_EQ(FaultOf(&OutOfBoundsKernel, grid, {nullptr, 5}), "");
  for (const int n : {-1, 6, 7, 8, 1 << 20}) {
    EXPECT_THAT(FaultOf(&OutOfBoundsKernel, grid, {nullptr, n}),
                HasSubstr("block (0, 0, 0): thread 5: elements [" + std::to_string(n) + ", "));
  }
  EXPECT_EQ(FaultOf(&VectorOutOfBoundsKernel, grid, {nullptr, 16}), "");
  EXPECT_THAT(FaultOf(&VectorOutOfBoundsKernel, grid, {nullptr, 24}), HasSubstr("elements [24, 32) of 30"));
  EXPECT_THAT(FaultOf(&VectorOutOfBoundsKernel, grid, {nullptr, 12}), HasSubstr("not aligned to 16 bytes"));
  EXPECT_THAT(FaultOf(&TakeTooMuchKernel, grid), HasSubstr("takes 144 of 128 bytes of shared memory"));
}

__global__ void ReadUnwrittenKernel(const Args a) {
  SharedMemory memory;
  const auto floats = memory.Take<float>(32);
  const auto halves = memory.Take<BFloat16>(32);
  if (blockIdx.x == 0) floats[static_cast<int>(threadIdx.x)] = 1;
  __syncthreads();
  a.out[blockIdx.x * 32 + threadIdx.x] = floats[static_cast<int>(threadIdx.x)];
  if (blockIdx.x == 2) a.out[64 + threadIdx.x] = ToFloat(halves[static_cast<int>(threadIdx.x)]);
}

TEST_F(Emulation, SharedMemoryBeginsAsNaNInEveryBlock) {
  std::vector<float> out(96, 0);
  EXPECT_EQ(FaultOf(&ReadUnwrittenKernel, {3, 1, 1, 32, 256}, {out.data()}), "");
  for (int i = 0; i < 96; ++i) EXPECT_EQ(std::isnan(out[i]), i >= 32) << i;
}

__global__ void ShuffleKernel(const Args a) {
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  float* const out = a.out + t * 5;
  const float value = static_cast<float>(t);
  out[0] = __shfl_xor_sync(kAllLanes, value, 5);
  out[1] = __shfl_up_sync(kAllLanes, value, 3);
  out[2] = __shfl_down_sync(kAllLanes, value, 3);
  out[3] = __shfl_sync(kAllLanes, value, 7);
  out[4] = static_cast<float>(__shfl_xor_sync(kAllLanes, 1.0 + lane * 1e-9, 1) - 1.0) * 1e9f;
}

TEST_F(Emulation, ShufflesStayInTheirWarp) {
  for (const auto order : kOrders) {
    emulation::SetRunOrder(order);
    std::vector<float> out(96 * 5);
    EXPECT_EQ(FaultOf(&ShuffleKernel, {1, 1, 1, 96, 0}, {out.data()}), "");
    for (int t = 0; t < 96; ++t) {
      const int lane = t % 32, warp = t - lane;
      EXPECT_EQ(out[t * 5], warp + (lane ^ 5));
      EXPECT_EQ(out[t * 5 + 1], lane < 3 ? t : t - 3);
      EXPECT_EQ(out[t * 5 + 2], lane > 28 ? t : t + 3);
      EXPECT_EQ(out[t * 5 + 3], warp + 7);
      EXPECT_NEAR(out[t * 5 + 4], lane ^ 1, 1e-4);
    }
  }
}

__global__ void AtomicKernel(const Args a) {
  atomicAdd(a.out, 1.0f);
  atomicMax(a.out + 1, static_cast<float>(threadIdx.x * (blockIdx.x + 1)));
}

TEST_F(Emulation, AtomicsReachAllBlocks) {
  for (const auto order : kOrders) {
    emulation::SetRunOrder(order);
    std::vector<float> out(2, 0);
    EXPECT_EQ(FaultOf(&AtomicKernel, {5, 1, 1, 64, 0}, {out.data()}), "");
    EXPECT_EQ(out, (std::vector<float>{320, 315}));
  }
}

TEST_F(Emulation, GridsThatNoDeviceTakesAreRefused) {
  EXPECT_THAT(FaultOf(&AtomicKernel, {1, 1, 1, 48, 0}), HasSubstr("1 x 1 x 1 blocks of 48 threads"));
  EXPECT_THAT(FaultOf(&AtomicKernel, {1, 70000, 1, 32, 0}), HasSubstr("1 x 70000 x 1 blocks"));
  EXPECT_THAT(FaultOf(&AtomicKernel, {1, 1, 1, 32, 300 << 10}), HasSubstr("307200 bytes of shared memory"));
  EXPECT_EQ(FaultOf(&AtomicKernel, {0, 1, 1, 32, 0}), "");
}

}  // namespace
}  // namespace lion::cuda
