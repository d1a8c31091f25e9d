// Masks of scores: M of docs/mathematics.md, section 1, between the tokens of a window.
#pragma once

#include "kernels/cuda/mixer_device.h"

namespace lion::cuda {

// Orders whose masks are added up in one block: of a whole sequence both, tokens being as they are in the batch;
// otherwise a block has one order, and its tokens are in it.
template <bool kWhole>
inline constexpr int kMasks = kWhole ? 2 : 1;

// Decays between tokens of a window: points and places as LoadDecays leaves them.
template <bool kWhole>
struct Mask {
  Shared<float4> points;
  Shared<int> places;
  int orders;

  // mask[n][i]: M of rows `row` (i < 2) and row + 8 and columns `column` + 8 n + i % 2, summed over orders.
  template <int kColumns>
  __device__ __forceinline__ void Apply(int row, int column, float (&scores)[kColumns][4]) const {
    DecayPoint query[kMasks<kWhole>][2];
    int query_place[kMasks<kWhole>][2];
#pragma unroll
    for (int o = 0; o < kMasks<kWhole>; ++o) {
      if (o >= orders) break;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        query[o][r] = ReadPoint(points, o * kMixerWindow + row + r * 8);
        query_place[o][r] = Place(o, row + r * 8);
      }
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float mask[2] = {};
#pragma unroll
        for (int o = 0; o < kMasks<kWhole>; ++o) {
          if (o >= orders) break;
          const DecayPoint key = ReadPoint(points, o * kMixerWindow + column + n * 8 + half);
          const int place = Place(o, column + n * 8 + half);
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const DecayPoint& q = query[o][r];
            mask[r] += place < query_place[o][r] ? DecayFrom(q.before, q.before_rest, key.before, key.before_rest)
                                                 : DecayFrom(key.after, key.after_rest, q.after, q.after_rest);
          }
        }
        scores[n][half] *= mask[0];
        scores[n][2 + half] *= mask[1];
      }
    }
  }

  __device__ __forceinline__ int Place(int order, int token) const {
    return kWhole ? places[order * kMixerWindow + token] : token;
  }
};

}  // namespace lion::cuda
