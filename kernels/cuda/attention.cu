// Softmax attention of the baseline, blockwise with a running maximum and sum: O(L d) memory (Milakov and Gimelshein
// 2018, Dao et al. 2022).
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mixer.h"
#include "kernels/cuda/mixer_device.h"

namespace lion::cuda {
namespace {

struct AttentionKernelArgs {
  MixerKernelArgs mixer;  // qkv, output, heads, width, vectors, parts
  float scale;            // with the factor that makes exp of exp2
};

template <typename T, int kWidth>
inline constexpr int kAttentionSharedBytes = SharedBytes<T>(kMixerTile* Pitch<T>(kWidth)) +
                                             2 * SharedBytes<T>(kKeyTile<T>* Pitch<T>(kWidth));

// Block: kMixerTile query rows of one head, 16 to a warp.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads) SoftmaxAttentionKernel(const AttentionKernelArgs args) {
  constexpr int kPitch = Pitch<T>(kWidth), kKeys = kKeyTile<T>;
  SharedMemory memory = SharedMemory::Of<kAttentionSharedBytes<T, kWidth>>();
  const auto queries = memory.Take<T>(kMixerTile * kPitch);
  const auto keys = memory.Take<T>(kKeys * kPitch);
  const auto values = memory.Take<T>(kKeys * kPitch);
  const MixerKernelArgs& a = args.mixer;
  const MixerPart part = a.parts[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  // Rows of q, k or v from a place of the sequence on.
  const auto load = [&](auto rows, int first, int of, const Shared<T>& tile) {
    ForRows<kWidth, decltype(rows)::value, T>(
        part.length - first, a.width, a.vectors, FeatureMap::kIdentity,
        [&](int r) { return QkvRow<T>(a, part.begin + first + r, of, head); },
        [&](int r, int column, const float(&x)[8]) { StoreEight(tile, r * kPitch + column, x); });
  };
  load(std::integral_constant<int, kMixerTile>(), part.first, 0, queries);

  // Of rows lane / 4 and that + 8 of the warp's 16. sum: this lane's columns only, until the end.
  float y[kWidth / 8][4] = {};
  float peak[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  for (int first = 0; first < part.length; first += kKeys) {
    __syncthreads();
    load(std::integral_constant<int, kKeys>(), first, 1, keys);
    load(std::integral_constant<int, kKeys>(), first, 2, values);
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
    float highest[2] = {peak[0], peak[1]};
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool inside = first + n * 8 + lane % 4 * 2 + i % 2 < part.length;
        scores[n][i] = inside ? scores[n][i] * args.scale : -INFINITY;
        // fmaxf leaves NaN to the exponentials.
        highest[i / 2] = fmaxf(highest[i / 2], scores[n][i]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      highest[r] = fmaxf(highest[r], __shfl_xor_sync(kAllLanes, highest[r], 1));
      highest[r] = fmaxf(highest[r], __shfl_xor_sync(kAllLanes, highest[r], 2));
      // The first tile has at least one score of each row, so that a peak is finite from here on.
      const float shrink = exp2f(peak[r] - highest[r]);
      peak[r] = highest[r];
      sum[r] *= shrink;
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
        y[n][r * 2] *= shrink;
        y[n][r * 2 + 1] *= shrink;
      }
    }
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      float weights[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        weights[i] = exp2f(scores[k / 8 + i / 4][i % 4] - peak[i / 2 % 2]);
        sum[i / 2 % 2] += weights[i];
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
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(kAllLanes, sum[r], 1);
    sum[r] += __shfl_xor_sync(kAllLanes, sum[r], 2);
    const int row = warp * 16 + lane / 4 + r * 8;
    if (row >= part.count) continue;
    T* const out = static_cast<T*>(a.output) + ((part.begin + part.first + row) * a.heads + head) * a.width;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      StorePair(out, n * 8 + lane % 4 * 2, a.width, y[n][r * 2] / sum[r], y[n][r * 2 + 1] / sum[r]);
    }
  }
}

}  // namespace

LaunchResult SoftmaxAttention(const SoftmaxAttentionArgs& args, const MixerPart* tiles, int64_t tile_count,
                              Stream stream) {
  AttentionKernelArgs kernel;
  kernel.mixer.qkv = args.qkv;
  kernel.mixer.output = args.output;
  kernel.mixer.heads = static_cast<int>(args.heads);
  kernel.mixer.width = static_cast<int>(args.head_width);
  kernel.mixer.vectors = args.head_width % 8 == 0;
  kernel.mixer.parts = tiles;
  kernel.scale = args.scale * 1.44269504f;
  return Dispatch(args.type, args.head_width, [&]<typename T, int kWidth>() {
    return Launch("SoftmaxAttention", &SoftmaxAttentionKernel<T, kWidth>,
                  {tile_count, args.heads, 1, kThreads, kAttentionSharedBytes<T, kWidth>}, stream, kernel);
  });
}

}  // namespace lion::cuda
