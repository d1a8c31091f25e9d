// Forms with scores between all pairs of tokens, block against block: the mixer's attention form and softmax attention.
// Time O(L^2), memory O(L d). Included once per instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/mixer_scan-inl.h"

#if defined(LION_KERNELS_CPU_MIXER_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_ATTENTION_INL_H
#undef LION_KERNELS_CPU_MIXER_ATTENTION_INL_H
#else
#define LION_KERNELS_CPU_MIXER_ATTENTION_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// s.scores [n, kBlock] = s.q [n, d] s.k [m, d]^T; columns from m up to Padded(m) are 0.
inline HWY_NOINLINE void BlockScores(int64_t n, int64_t m, int64_t width, ScanScratch& s) {
  const int64_t padded = Padded(width), columns = Padded(m);
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t j = 0; j < m; ++j) s.transposed[i * kBlock + j] = s.k[j * padded + i];
    for (int64_t j = m; j < columns; ++j) s.transposed[i * kBlock + j] = 0;
  }
  std::fill_n(s.scores, n * kBlock, 0.0f);
  AddGemm(n, columns, width, {s.q, padded, 1}, s.transposed, kBlock, s.scores, kBlock);
}

// The block form with blocks as long as the sequence, cut into tiles. Prefix sums of the log decays are float64, for
// they run over the whole sequence.
template <typename T, class Emit>
inline HWY_NOINLINE void ScanAttention(const HeadView<T>& head, int64_t width, ScanScratch& s, const Emit& emit) {
  const int64_t padded = Padded(width), length = head.length();
  double* const prefix = s.prefix();
  prefix[0] = 0;
  for (int64_t i = 0; i < length; ++i) prefix[i + 1] = prefix[i] + (head.decays() ? head.LogDecay(i) : 0.0f);
  float c[kBlock];
  for (int64_t first = 0; first < length; first += kBlock) {
    const int64_t n = std::min(kBlock, length - first);
    head.Load(0, first, n, s.q);
    std::fill_n(s.y, n * padded, 0.0f);
    std::fill_n(c, n, 0.0f);
    for (int64_t other = 0; other < length; other += kBlock) {
      const int64_t m = std::min(kBlock, length - other);
      head.Load(1, other, m, s.k);
      head.Load(2, other, m, s.v);
      BlockScores(n, m, width, s);
      for (int64_t r = 0; r < n; ++r) {
        float* row = s.scores + r * kBlock;
        HWY_ALIGN float argument[kBlock];
        const int64_t i = first + r;
        for (int64_t q = 0; q < m; ++q) {
          const int64_t j = other + q;
          argument[q] = static_cast<float>(i > j ? prefix[i] - prefix[j] : i < j ? prefix[j + 1] - prefix[i + 1] : 0.0);
        }
        c[r] += SumOver(m, [&](auto d, int64_t q) HWY_ATTR {
          const auto score = hn::Mul(hn::LoadU(d, row + q), ExpKeepingNaN(d, hn::LoadU(d, argument + q)));
          hn::StoreU(score, d, row + q);
          return score;
        });
      }
      AddGemm(n, padded, m, {s.scores, kBlock, 1}, s.v, padded, s.y, padded);
    }
    for (int64_t r = 0; r < n; ++r) emit(first + r, s.y + r * padded, c[r]);
  }
}

// Softmax with a running maximum: sums so far are rescaled when a larger score comes.
template <typename T>
absl::Status SoftmaxAttentionOf(CpuContext& context, const SoftmaxAttentionArgs& args) {
  MixerArgs view;
  view.offsets = args.offsets;
  view.heads = args.heads;
  view.head_width = args.head_width;
  view.qkv = args.qkv;
  view.type = args.type;
  view.output = args.output;
  const int64_t sequences = static_cast<int64_t>(args.offsets.size()) - 1, width = args.head_width;
  context.pool().ParallelFor(sequences * args.heads, [&](int64_t task, int thread) {
    const HeadView<T> head(view, static_cast<size_t>(task / args.heads), task % args.heads, view.orders[0]);
    const int64_t padded = Padded(width), length = head.length();
    ScanScratch s(context.Reserve(thread, ScanScratch::Bytes(1, width)), 1, width);
    for (int64_t first = 0; first < length; first += kBlock) {
      const int64_t n = std::min(kBlock, length - first);
      head.Load(0, first, n, s.q);
      std::fill_n(s.y, n * padded, 0.0f);
      float peak[kBlock], sum[kBlock];
      std::fill_n(peak, n, -HUGE_VALF);
      std::fill_n(sum, n, 0.0f);
      for (int64_t other = 0; other < length; other += kBlock) {
        const int64_t m = std::min(kBlock, length - other);
        head.Load(1, other, m, s.k);
        head.Load(2, other, m, s.v);
        BlockScores(n, m, width, s);
        for (int64_t r = 0; r < n; ++r) {
          float* row = s.scores + r * kBlock;
          float highest = peak[r];
          for (int64_t j = 0; j < m; ++j) highest = std::max(highest, row[j] * args.scale);
          const float rescale = std::exp(peak[r] - highest);
          peak[r] = highest;
          ForEach(padded, [&](auto d, int64_t i) HWY_ATTR {
            float* y = s.y + r * padded + i;
            hn::StoreU(hn::Mul(hn::LoadU(d, y), hn::Set(d, rescale)), d, y);
          });
          sum[r] = sum[r] * rescale + SumOver(m, [&](auto d, int64_t j) HWY_ATTR {
                     const auto shifted =
                         hn::Sub(hn::Mul(hn::LoadU(d, row + j), hn::Set(d, args.scale)), hn::Set(d, highest));
                     const auto weight = ExpKeepingNaN(d, shifted);
                     hn::StoreU(weight, d, row + j);
                     return weight;
                   });
        }
        AddGemm(n, padded, m, {s.scores, kBlock, 1}, s.v, padded, s.y, padded);
      }
      for (int64_t r = 0; r < n; ++r) {
        T* out = head.Output(first + r);
        const float factor = 1.0f / sum[r];
        ForEach(width, [&](auto d, int64_t i) HWY_ATTR {
          StoreF32(d, hn::Mul(hn::LoadU(d, s.y + r * padded + i), hn::Set(d, factor)), out + i);
        });
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
