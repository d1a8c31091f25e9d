// The states of the chunkwise mixer: what each chunk adds to them, and the scan that makes of it what enters each
// chunk.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mixer_device.h"

namespace lion::cuda {
namespace {

// Of one block: wide states are cut by direction and into halves of their columns, so that the sums fit into registers.
template <int kWidth>
struct StateCut {
  static constexpr int kDirections = kWidth == 64 ? 2 : 1;
  static constexpr int kColumns = 64;
  static constexpr int kHalves = kWidth / kColumns;
};

template <typename T, int kWidth>
inline constexpr int kStatesSharedBytes =
    SharedBytes<T>(StateCut<kWidth>::kDirections* kKeyTile<T>* Pitch<T>(kWidth)) +
    SharedBytes<T>(kKeyTile<T>* Pitch<T>(StateCut<kWidth>::kColumns)) + SharedBytes<float4>(kMixerWindow);

// Block: a chunk, a head, an order (and direction and half): sum over r of w_r phi(k_r) v_r^T, w being what the token
// has decayed by when it leaves the chunk; z is the same without v.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads) MixerStatesKernel(const MixerKernelArgs a) {
  using Cut = StateCut<kWidth>;
  constexpr int kPitch = Pitch<T>(kWidth), kValuePitch = Pitch<T>(Cut::kColumns), kTokens = kKeyTile<T>;
  constexpr int kRowTiles = kWidth / 16, kWarps = kThreads / kWarp;
  constexpr int kItems = Cut::kDirections * kRowTiles / kWarps;
  static_assert(Cut::kDirections * kWidth <= kThreads && kItems >= 1);
  SharedMemory memory = SharedMemory::Of<kStatesSharedBytes<T, kWidth>>();
  const auto keys = memory.Take<T>(Cut::kDirections * kTokens * kPitch);
  const auto values = memory.Take<T>(kTokens * kValuePitch);
  const auto points = memory.Take<float4>(kMixerWindow);

  const MixerPart part = a.parts[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const int cuts = Cut::kDirections == 2 ? 1 : a.directions * Cut::kHalves;
  const int order_number = static_cast<int>(blockIdx.z) / cuts, cut = static_cast<int>(blockIdx.z) % cuts;
  const int first_direction = cut / Cut::kHalves, half = cut % Cut::kHalves;
  const int directions = Cut::kDirections == 2 ? a.directions : 1;
  const MixerKernelArgs::Order order = a.orders[order_number];

  if (a.decays) {
    if (warp == 0) LoadDecays<false>(order, head, part.begin, part.first, part.count, points, {}, 0);
    __syncthreads();
  }
  float sums[kItems][Cut::kColumns / 8][4] = {};
  float z = 0;
  for (int first = 0; first < part.count; first += kTokens) {
    if (first > 0) __syncthreads();
    const auto token = [&](int r) { return part.begin + TokenAt(order, part.begin, part.first + first + r); };
    ForRows<kWidth, kTokens, T>(
        part.count - first, a.width, a.vectors, a.map, [&](int r) { return QkvRow<T>(a, token(r), 1, head); },
        [&](int r, int column, const float(&x)[8]) {
#pragma unroll
          for (int d = 0; d < Cut::kDirections; ++d) {
            if (d >= directions) break;
            float weight = 1;
            if (a.decays) {
              const DecayPoint point = ReadPoint(points, first + r), last = ReadPoint(points, kMixerWindow - 1);
              weight = first_direction + d == 0 ? ToRight(point, last) : ToLeft(point);
            }
            float weighed[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) weighed[i] = x[i] * weight;
            StoreEight(keys, (d * kTokens + r) * kPitch + column, weighed);
          }
        });
    ForRows<Cut::kColumns, kTokens, T>(
        part.count - first, a.width - half * Cut::kColumns, a.vectors, FeatureMap::kIdentity,
        [&](int r) { return QkvRow<T>(a, token(r), 2, head) + half * Cut::kColumns; },
        [&](int r, int column, const float(&x)[8]) { StoreEight(values, r * kValuePitch + column, x); });
    __syncthreads();
    for (int k = 0; k < kTokens; k += 16) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const int item = warp + i * kWarps, d = item / kRowTiles;
        if (d >= directions) continue;
        FragmentA<T> key;
        LoadATransposed(keys, kPitch, d * kTokens + k, item % kRowTiles * 16, key);
#pragma unroll
        for (int n = 0; n < Cut::kColumns; n += 16) {
          FragmentB<T> value[2];
          LoadBTransposed(values, kValuePitch, k, n, value);
          Multiply(sums[i][n / 8], key, value[0]);
          Multiply(sums[i][n / 8 + 1], key, value[1]);
        }
      }
    }
    if (thread < directions * kWidth) {
      for (int r = 0; r < kTokens; ++r) z += ToFloat(keys[(thread / kWidth * kTokens + r) * kPitch + thread % kWidth]);
    }
  }

  constexpr int64_t kState = static_cast<int64_t>(kWidth + 1) * kWidth;
  const auto state = [&](int d) {
    return a.added + StateNumber(a, part.chunk, order_number, first_direction + d, head) * kState;
  };
  const int lane = thread % kWarp;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int item = warp + i * kWarps, d = item / kRowTiles;
    if (d >= directions) continue;
    float* const rows = state(d) + (item % kRowTiles * 16 + lane / 4) * kWidth + half * Cut::kColumns + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < Cut::kColumns / 8; ++n) {
      *reinterpret_cast<float2*>(rows + n * 8) = {sums[i][n][0], sums[i][n][1]};
      *reinterpret_cast<float2*>(rows + 8 * kWidth + n * 8) = {sums[i][n][2], sums[i][n][3]};
    }
  }
  if (half == 0 && thread < directions * kWidth) state(thread / kWidth)[kWidth * kWidth + thread % kWidth] = z;
  if (a.decays && cut == 0 && thread == 0) {
    a.whole[(static_cast<int64_t>(part.chunk) * a.order_count + order_number) * a.heads + head] =
        ToLeft(ReadPoint(points, kMixerWindow - 1));
  }
}

// Four elements of the states of one sequence, head, order and direction to a thread, chunk after chunk.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads) MixerScanKernel(const MixerKernelArgs a) {
  constexpr int kState = (kWidth + 1) * kWidth, kBlocks = (kState / 4 + kThreads - 1) / kThreads;
  const MixerPart sequence = a.parts[blockIdx.x / kBlocks];
  const int element = (static_cast<int>(blockIdx.x) % kBlocks * kThreads + static_cast<int>(threadIdx.x)) * 4;
  if (element >= kState) return;
  const int head = static_cast<int>(blockIdx.y);
  const int order = static_cast<int>(blockIdx.z) / a.directions,
            direction = static_cast<int>(blockIdx.z) % a.directions;
  const auto store = [&](int chunk, const float(&state)[4]) {
    const int64_t number = StateNumber(a, chunk, order, direction, head);
    float* const z = a.entering_z + number * kWidth;
    T* const entering = static_cast<T*>(a.entering) + number * kWidth * kWidth;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      if (element < kWidth * kWidth) {
        StorePair(entering, element + i, kWidth * kWidth, state[i], state[i + 1]);
      } else {
        StorePair(z, element - kWidth * kWidth + i, kWidth, state[i], state[i + 1]);
      }
    }
  };
  float running[4] = {};
#pragma unroll 4
  for (int i = 0; i < sequence.count; ++i) {
    const int chunk = sequence.chunk + (direction == 0 ? i : sequence.count - 1 - i);
    const int64_t number = StateNumber(a, chunk, order, direction, head);
    const float4 added = __ldg(reinterpret_cast<const float4*>(a.added + number * kState + element));
    const float whole =
        a.decays ? __ldg(a.whole + (static_cast<int64_t>(chunk) * a.order_count + order) * a.heads + head) : 1.0f;
    if (a.decays) store(chunk, running);
    running[0] = whole * running[0] + added.x;
    running[1] = whole * running[1] + added.y;
    running[2] = whole * running[2] + added.z;
    running[3] = whole * running[3] + added.w;
  }
  if (!a.decays) store(sequence.chunk, running);
}

}  // namespace

LaunchResult LaunchMixerStates(const MixerKernelArgs& args, DataType type, int64_t chunks, Stream stream) {
  return Dispatch(type, args.width, [&]<typename T, int kWidth>() {
    using Cut = StateCut<kWidth>;
    const int cuts = Cut::kDirections == 2 ? 1 : args.directions * Cut::kHalves;
    return Launch("MixerStates", &MixerStatesKernel<T, kWidth>,
                  {chunks, args.heads, args.order_count * cuts, kThreads, kStatesSharedBytes<T, kWidth>}, stream, args);
  });
}

LaunchResult LaunchMixerScan(const MixerKernelArgs& args, DataType type, int64_t sequences, Stream stream) {
  return Dispatch(type, args.width, [&]<typename T, int kWidth>() {
    constexpr int kBlocks = ((kWidth + 1) * kWidth / 4 + kThreads - 1) / kThreads;
    return Launch("MixerScan", &MixerScanKernel<T, kWidth>,
                  {sequences * kBlocks, args.heads, args.order_count * args.directions, kThreads, 0}, stream, args);
  });
}

}  // namespace lion::cuda
