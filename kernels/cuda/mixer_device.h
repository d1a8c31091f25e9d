// What the mixer's kernels share: decays of a window of tokens, rows of one head.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/mixer_kernels.h"
#include "kernels/cuda/rows.h"

namespace lion::cuda {

// Keys that are in shared memory at a time.
template <typename T>
inline constexpr int kKeyTile = std::is_same_v<T, BFloat16> ? 64 : 32;

// The window's decays up to a place of the scan, as exponents of 2: of the tokens before it, and with its own. Two
// float32 numbers each, whose sum is as exact as the difference of two such sums must be beside saturated gates, whose
// logarithms are large; sums in float64 would be too slow on many GPUs.
struct DecayPoint {
  float before, before_rest, after, after_rest;
};
__device__ __forceinline__ DecayPoint ReadPoint(const Shared<float4>& points, int i) {
  const float4 p = points[i];
  return {p.x, p.y, p.z, p.w};
}
// exp of what lies between the ends.
__device__ __forceinline__ float DecayFrom(float end, float end_rest, float start, float start_rest) {
  return exp2f((end - start) + (end_rest - start_rest));
}
// What the forward state has decayed by when it reaches the point; a key at it when it leaves the window to the left.
__device__ __forceinline__ float FromLeft(const DecayPoint& p) { return exp2f(p.before + p.before_rest); }
__device__ __forceinline__ float ToLeft(const DecayPoint& p) { return exp2f(p.after + p.after_rest); }
// The same to and from the right; `last`: of the window.
__device__ __forceinline__ float FromRight(const DecayPoint& p, const DecayPoint& last) {
  return DecayFrom(last.after, last.after_rest, p.after, p.after_rest);
}
__device__ __forceinline__ float ToRight(const DecayPoint& p, const DecayPoint& last) {
  return DecayFrom(last.after, last.after_rest, p.before, p.before_rest);
}

__device__ __forceinline__ int TokenAt(const MixerKernelArgs::Order& order, int64_t begin, int place) {
  return order.permutation == nullptr ? place : __ldg(order.permutation + begin + place);
}

// The points of the `count` places from `first` on of the sequence that begins at `begin`, by one warp; beyond them, up
// to kMixerWindow, the last one's `after` goes on. kByToken: points[i] is that of token i of the sequence, and
// places[i] its place; otherwise of place first + i.
template <bool kByToken>
__device__ __forceinline__ void LoadDecays(const MixerKernelArgs::Order& order, int head, int64_t begin, int first,
                                           int count, const Shared<float4>& points, const Shared<int>& places,
                                           int offset) {
  constexpr int kEach = kMixerWindow / kWarp;
  constexpr double kLog2E = 1.4426950408889634;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float decay[kEach];
  int index[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int place = lane * kEach + i;
    decay[i] = 0;
    index[i] = place;
    if (place < count) {
      const int token = TokenAt(order, begin, first + place);
      if (kByToken) index[i] = token;
      if (order.log_decay != nullptr) decay[i] = __ldg(order.log_decay + (begin + token) * order.stride + head);
    }
  }
  double sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += decay[i];
  double prefix = sum;
#pragma unroll
  for (int by = 1; by < kWarp; by *= 2) {
    const double left = __shfl_up_sync(kAllLanes, prefix, by);
    if (lane >= by) prefix += left;
  }
  // Not prefix - sum: that would lose digits.
  prefix = __shfl_up_sync(kAllLanes, prefix, 1);
  if (lane == 0) prefix = 0;
  float4 point;
  point.z = static_cast<float>(prefix * kLog2E);
  point.w = static_cast<float>(prefix * kLog2E - static_cast<double>(point.z));
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    point.x = point.z;
    point.y = point.w;
    prefix += decay[i];
    point.z = static_cast<float>(prefix * kLog2E);
    point.w = static_cast<float>(prefix * kLog2E - static_cast<double>(point.z));
    points[offset + index[i]] = point;
    if (kByToken) places[offset + index[i]] = lane * kEach + i;
  }
}

// The row of q (0), k (1) or v (2) of a token of the batch.
template <typename T>
__device__ __forceinline__ const T* QkvRow(const MixerKernelArgs& a, int64_t token, int part, int head) {
  return static_cast<const T*>(a.qkv) + ((token * 3 + part) * a.heads + head) * a.width;
}

__device__ __forceinline__ int64_t StateNumber(const MixerKernelArgs& a, int chunk, int order, int direction,
                                               int head) {
  return ((static_cast<int64_t>(chunk) * a.order_count + order) * a.directions + direction) * a.heads + head;
}

// What y and c become: y times this.
__device__ __forceinline__ float OutputFactor(const MixerKernelArgs& a, float c) {
  return a.normalize ? a.weight / (a.weight * c + a.epsilon) : a.weight;
}

}  // namespace lion::cuda
