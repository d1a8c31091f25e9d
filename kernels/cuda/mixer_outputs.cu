// The outputs of the mixer: masked scores inside a window of tokens and, where the window is not the whole sequence,
// the states that enter it; normalised on the way out.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mixer_device.h"
#include "kernels/cuda/mixer_mask.h"

namespace lion::cuda {
namespace {

constexpr int kWarps = kThreads / kWarp;
static_assert(kMixerTile == kWarps * 16, "a warp has 16 query rows");

template <typename T, int kWidth, bool kWhole>
inline constexpr int kOutputsSharedBytes =
    SharedBytes<T>(kMixerTile* Pitch<T>(kWidth)) + 2 * SharedBytes<T>(kKeyTile<T>* Pitch<T>(kWidth)) +
    SharedBytes<float4>(kMasks<kWhole>* kMixerWindow) + SharedBytes<int>(kMasks<kWhole>* kMixerWindow);

// Block: kMixerTile query rows of one head (and order). So many blocks must have room on a multiprocessor: left to
// itself, ptxas takes no more registers than let one more have it, and spills.
template <typename T, int kWidth, bool kWhole>
__global__ void __launch_bounds__(kThreads, kWidth == 64 ? 3 : 2) MixerOutputsKernel(const MixerKernelArgs a) {
  constexpr int kPitch = Pitch<T>(kWidth), kKeys = kKeyTile<T>;
  SharedMemory memory = SharedMemory::Of<kOutputsSharedBytes<T, kWidth, kWhole>>();
  const auto queries = memory.Take<T>(kMixerTile * kPitch);
  const auto keys = memory.Take<T>(kKeys * kPitch);
  const auto values = memory.Take<T>(kKeys * kPitch);
  Mask<kWhole> mask;
  mask.points = memory.Take<float4>(kMasks<kWhole> * kMixerWindow);
  mask.places = memory.Take<int>(kMasks<kWhole> * kMixerWindow);
  mask.orders = kWhole ? a.order_count : 1;

  const MixerPart part = a.parts[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y), order_number = static_cast<int>(blockIdx.z);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int window_first = kWhole ? 0 : part.first / a.chunk_tokens * a.chunk_tokens;
  const int rest = part.length - window_first;
  const int window = kWhole || rest < a.chunk_tokens ? rest : a.chunk_tokens;
  const MixerKernelArgs::Order order = a.orders[order_number];
  const auto token = [&](int place) { return part.begin + (kWhole ? place : TokenAt(order, part.begin, place)); };

  if (a.decays && warp < mask.orders) {
    LoadDecays<kWhole>(kWhole ? a.orders[warp] : order, head, part.begin, window_first, window, mask.points,
                       mask.places, warp * kMixerWindow);
  }
  ForRows<kWidth, kMixerTile, T>(
      part.count, a.width, a.vectors, a.map, [&](int r) { return QkvRow<T>(a, token(part.first + r), 0, head); },
      [&](int r, int column, const float(&x)[8]) { StoreEight(queries, r * kPitch + column, x); });

  // Of rows lane / 4 and that + 8 of the warp's 16; c: this lane's columns only, until the end.
  float y[kWidth / 8][4] = {};
  float c[2] = {};
  // Without decays the state is the whole sequence's, this window's tokens among them.
  const int scored = kWhole || a.decays ? window : 0;
  for (int first = 0; first < scored; first += kKeys) {
    __syncthreads();
    ForRows<kWidth, kKeys, T>(
        window - first, a.width, a.vectors, a.map,
        [&](int r) { return QkvRow<T>(a, token(window_first + first + r), 1, head); },
        [&](int r, int column, const float(&x)[8]) { StoreEight(keys, r * kPitch + column, x); });
    ForRows<kWidth, kKeys, T>(
        window - first, a.width, a.vectors, FeatureMap::kIdentity,
        [&](int r) { return QkvRow<T>(a, token(window_first + first + r), 2, head); },
        [&](int r, int column, const float(&x)[8]) { StoreEight(values, r * kPitch + column, x); });
    __syncthreads();
    float scores[kKeys / 8][4] = {};
#pragma unroll
    for (int k = 0; k < kWidth; k += 16) {
      FragmentA<T> query;
      LoadA(queries, kPitch, warp * 16, k, query);
#pragma unroll
      for (int n = 0; n < kKeys; n += 16) {
        FragmentB<T> key[2];
        LoadB(keys, kPitch, n, k, key);
        Multiply(scores[n / 8], query, key[0]);
        Multiply(scores[n / 8 + 1], query, key[1]);
      }
    }
    if (a.decays) mask.Apply(part.first - window_first + warp * 16 + lane / 4, first + lane % 4 * 2, scores);
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      const auto& left = scores[k / 8];
      const auto& right = scores[k / 8 + 1];
      const float weights[8] = {left[0], left[1], left[2], left[3], right[0], right[1], right[2], right[3]};
      c[0] += (left[0] + left[1]) + (right[0] + right[1]);
      c[1] += (left[2] + left[3]) + (right[2] + right[3]);
      FragmentA<T> weight;
      MakeA(weights, weight);
#pragma unroll
      for (int n = 0; n < kWidth; n += 16) {
        FragmentB<T> value[2];
        LoadBTransposed(values, kPitch, k, n, value);
        Multiply(y[n / 8], weight, value[0]);
        Multiply(y[n / 8 + 1], weight, value[1]);
      }
    }
  }

  if constexpr (!kWhole) {
    const int chunk = a.decays ? part.chunk : part.chunk - part.first / a.chunk_tokens;
    // Not unrolled: the outputs fill the registers.
#pragma unroll 1
    for (int direction = 0; direction < a.directions; ++direction) {
      const int64_t number = StateNumber(a, chunk, order_number, direction, head);
      const T* const state = static_cast<const T*>(a.entering) + number * kWidth * kWidth;
      const float* const z = a.entering_z + number * kWidth;
      float decay[2];
#pragma unroll 1
      for (int first = 0; first < kWidth; first += kKeys) {
        __syncthreads();
        ForRows<kWidth, kKeys, T>(
            kKeys, kWidth, true, FeatureMap::kIdentity, [&](int r) { return state + (first + r) * kWidth; },
            [&](int r, int column, const float(&x)[8]) { StoreEight(values, r * kPitch + column, x); });
        __syncthreads();
        if (first == 0) {
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            decay[r] = 1;
            if (!a.decays) continue;
            const DecayPoint point = ReadPoint(mask.points, part.first - window_first + warp * 16 + lane / 4 + r * 8);
            decay[r] = direction == 0 ? FromLeft(point) : FromRight(point, ReadPoint(mask.points, kMixerWindow - 1));
          }
        }
#pragma unroll
        for (int k = 0; k < kKeys; k += 16) {
          float weights[8];
          LoadAValues(queries, kPitch, warp * 16, first + k, weights);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            weights[i] *= decay[i / 2 % 2];
            c[i / 2 % 2] += weights[i] * __ldg(z + first + k + lane % 4 * 2 + i / 4 * 8 + i % 2);
          }
          FragmentA<T> weight;
          MakeA(weights, weight);
#pragma unroll
          for (int n = 0; n < kWidth; n += 16) {
            FragmentB<T> value[2];
            LoadBTransposed(values, kPitch, k, n, value);
            Multiply(y[n / 8], weight, value[0]);
            Multiply(y[n / 8 + 1], weight, value[1]);
          }
        }
      }
    }
  }

  const bool partial = !kWhole && a.order_count == 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    c[r] += __shfl_xor_sync(kAllLanes, c[r], 1);
    c[r] += __shfl_xor_sync(kAllLanes, c[r], 2);
    const int row = warp * 16 + lane / 4 + r * 8;
    if (row >= part.count) continue;
    const int64_t place = token(part.first + row) * a.heads + head;
    if (partial) {
      const int64_t partial_place = static_cast<int64_t>(order_number) * a.tokens * a.heads + place;
      if (lane % 4 == 0) a.partial_c[partial_place] = c[r];
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
        StorePair(a.partial_y + partial_place * a.width, n * 8 + lane % 4 * 2, a.width, y[n][r * 2], y[n][r * 2 + 1]);
      }
    } else {
      const float factor = OutputFactor(a, c[r]);
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
        StorePair(static_cast<T*>(a.output) + place * a.width, n * 8 + lane % 4 * 2, a.width, y[n][r * 2] * factor,
                  y[n][r * 2 + 1] * factor);
      }
    }
  }
}

// Adds up the two orders of a tile of tokens and a head.
template <typename T>
__global__ void __launch_bounds__(kThreads) MixerFinishKernel(const MixerKernelArgs a) {
  const MixerPart part = a.parts[blockIdx.x];
  const int64_t other = a.tokens * a.heads;
  for (int i = static_cast<int>(threadIdx.x); i < part.count * a.width; i += kThreads) {
    const int64_t place = (part.begin + part.first + i / a.width) * a.heads + static_cast<int>(blockIdx.y);
    const int64_t element = place * a.width + i % a.width;
    const float factor = OutputFactor(a, a.partial_c[place] + a.partial_c[other + place]);
    Assign(static_cast<T*>(a.output)[element],
           (a.partial_y[element] + a.partial_y[other * a.width + element]) * factor);
  }
}

template <bool kWhole>
LaunchResult LaunchOutputs(const char* name, const MixerKernelArgs& args, DataType type, int64_t tiles, int orders,
                           Stream stream) {
  return Dispatch(type, args.width, [&]<typename T, int kWidth>() {
    return Launch(name, &MixerOutputsKernel<T, kWidth, kWhole>,
                  {tiles, args.heads, orders, kThreads, kOutputsSharedBytes<T, kWidth, kWhole>}, stream, args);
  });
}

}  // namespace

LaunchResult LaunchMixerShort(const MixerKernelArgs& args, DataType type, int64_t tiles, Stream stream) {
  return LaunchOutputs<true>("MixerShort", args, type, tiles, 1, stream);
}
LaunchResult LaunchMixerLong(const MixerKernelArgs& args, DataType type, int64_t tiles, Stream stream) {
  return LaunchOutputs<false>("MixerLong", args, type, tiles, args.order_count, stream);
}
LaunchResult LaunchMixerFinish(const MixerKernelArgs& args, DataType type, int64_t tiles, Stream stream) {
  return Dispatch(type, [&]<typename T>() {
    return Launch("MixerFinish", &MixerFinishKernel<T>, {tiles, args.heads, 1, kThreads, 0}, stream, args);
  });
}

}  // namespace lion::cuda
