// The chunkwise form of the mixer (docs/mathematics.md, section 1): work is products of [C, d] blocks, memory O(L d).
// Included once per instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/context.h"
#include "kernels/cpu/mixer_head-inl.h"
#include "kernels/cpu/small_gemm-inl.h"

#if defined(LION_KERNELS_CPU_MIXER_CHUNK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_CHUNK_INL_H
#undef LION_KERNELS_CPU_MIXER_CHUNK_INL_H
#else
#define LION_KERNELS_CPU_MIXER_CHUNK_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// Tokens of a block: the last of a sequence may have fewer.
inline constexpr int64_t kBlock = 64;

// Decays inside one block of n tokens, l_0 .. l_{n-1}. Prefix sums are float64: their differences stay exact beside
// saturated gates, whose logarithms are large.
struct BlockDecay {
  double prefix[kBlock + 1];  // prefix[r] = l_0 + ... + l_{r-1}
  float from_left[kBlock];    // exp(prefix[r]): what the forward state has decayed by when it reaches token r
  float to_right[kBlock];     // exp(prefix[n] - prefix[r]): what token r has decayed by when it leaves to the right
  float from_right[kBlock];   // exp(prefix[n] - prefix[r + 1])
  float to_left[kBlock];      // exp(prefix[r + 1])
  float whole = 1;            // exp(prefix[n])

  template <typename T>
  void Set(const HeadView<T>& head, int64_t first, int64_t n) {
    prefix[0] = 0;
    for (int64_t r = 0; r < n; ++r) prefix[r + 1] = prefix[r] + (head.decays() ? head.LogDecay(first + r) : 0.0f);
    float argument[4][kBlock];
    for (int64_t r = 0; r < n; ++r) {
      argument[0][r] = static_cast<float>(prefix[r]);
      argument[1][r] = static_cast<float>(prefix[n] - prefix[r]);
      argument[2][r] = static_cast<float>(prefix[n] - prefix[r + 1]);
      argument[3][r] = static_cast<float>(prefix[r + 1]);
    }
    float* const results[4] = {from_left, to_right, from_right, to_left};
    for (int i = 0; i < 4; ++i) {
      ForEach(n, [&](auto d, int64_t r)
                     HWY_ATTR { hn::StoreU(ExpKeepingNaN(d, hn::LoadU(d, argument[i] + r)), d, results[i] + r); });
    }
    whole = to_left[n - 1];
  }
};

// scores[i, j] *= M[i, j] inside the block.
inline HWY_NOINLINE void MaskScores(const BlockDecay& decay, int64_t n, float* scores) {
  HWY_ALIGN float argument[kBlock];
  for (int64_t i = 0; i < n; ++i) {
    float* row = scores + i * kBlock;
    for (int64_t j = 0; j < i; ++j) argument[j] = static_cast<float>(decay.prefix[i] - decay.prefix[j]);
    argument[i] = 0;
    for (int64_t j = i + 1; j < n; ++j) argument[j] = static_cast<float>(decay.prefix[j + 1] - decay.prefix[i + 1]);
    ForEach(n, [&](auto d, int64_t j) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, row + j), ExpKeepingNaN(d, hn::LoadU(d, argument + j))), d, row + j);
    });
  }
}

// state64 = decay * state64 + block and state32 = state64, for n elements. The running sums are float64: those of
// float32 lose digits over tens of thousands of tokens.
inline HWY_NOINLINE void AddToState(int64_t n, float decay, const float* block, double* state64, float* state32) {
  const hn::CappedTag<double, 8> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d64));
  const auto factor = hn::Set(d64, static_cast<double>(decay));
  for (int64_t i = 0; i < n; i += lanes) {
    const auto sum = hn::MulAdd(hn::LoadU(d64, state64 + i), factor, hn::PromoteTo(d64, hn::LoadU(d32, block + i)));
    hn::StoreU(sum, d64, state64 + i);
    hn::StoreU(hn::DemoteTo(d32, sum), d32, state32 + i);
  }
}

// The state as it runs along a scan; widths padded.
struct RunningState {
  double* state;  // [d, Padded(d)]
  double* z;      // [Padded(d)]

  void Clear(int64_t width) {
    std::fill_n(state, width * Padded(width), 0.0);
    std::fill_n(z, Padded(width), 0.0);
  }
};

// Buffers of one scan; widths padded.
struct ChunkScratch {
  // Everything but the per-block states is of fixed size.
  static int64_t Bytes(int64_t length, int64_t width) { return Plan(length, width).bytes(); }
  ChunkScratch(std::byte* memory, int64_t length, int64_t width) {
    ScratchPlan plan = Plan(length, width);
    plan.Use(memory);
    const int64_t padded = Padded(width), blocks = (length + kBlock - 1) / kBlock;
    for (float** tile : {&q, &k, &v, &scaled, &y}) *tile = plan.Take<float>(kBlock * padded);
    transposed = plan.Take<float>(padded * kBlock);
    scores = plan.Take<float>(kBlock * kBlock);
    state = plan.Take<float>(width * padded);
    z = plan.Take<float>(padded);
    running.state = plan.Take<double>(width * padded);
    running.z = plan.Take<double>(padded);
    second.state = plan.Take<double>(width * padded);
    second.z = plan.Take<double>(padded);
    block = plan.Take<float>((width + 1) * padded);
    right_state = plan.Take<float>(RightFloats(length, width));
    right_z = plan.Take<float>(blocks * padded);
    all_y = plan.Take<float>(length * padded);
    all_c = plan.Take<float>(length);
  }

  float *q, *k, *v, *scaled, *y;  // [kBlock, Padded(d)]
  float* transposed;              // [Padded(d), kBlock]
  float* scores;                  // [kBlock, kBlock]
  RunningState running, second;   // of the direction at hand, and of the other in the recurrent form
  float* block;                   // [d + 1, Padded(d)]: one block's share of it
  float *state, *z;               // [d, Padded(d)], [Padded(d)]: the forward state in float32
  float *right_state, *right_z;   // the backward state as it enters each block
  float *all_y, *all_c;           // [L, Padded(d)], [L]: sums over two orders, in token order

  // The attention form's prefix sums share the place of the states, which it has not.
  double* prefix() { return reinterpret_cast<double*>(right_state); }  // [L + 1]

 private:
  static int64_t RightFloats(int64_t length, int64_t width) {
    const int64_t blocks = (length + kBlock - 1) / kBlock;
    return std::max(blocks * width * Padded(width), 2 * (length + 1));
  }
  static ScratchPlan Plan(int64_t length, int64_t width) {
    const int64_t padded = Padded(width), blocks = (length + kBlock - 1) / kBlock;
    ScratchPlan plan;
    for (int i = 0; i < 5; ++i) plan.Add<float>(kBlock * padded);
    plan.Add<float>(padded * kBlock);
    plan.Add<float>(kBlock * kBlock);
    plan.Add<float>(width * padded);
    plan.Add<float>(padded);
    for (int i = 0; i < 2; ++i) {
      plan.Add<double>(width * padded);
      plan.Add<double>(padded);
    }
    plan.Add<float>((width + 1) * padded);
    plan.Add<float>(RightFloats(length, width));
    plan.Add<float>(blocks * padded);
    plan.Add<float>(length * padded);
    plan.Add<float>(length);
    return plan;
  }
};

// state = decay * state + sum over r of weight[r] k_r v_r^T, and z likewise; weight == nullptr: all 1. `state32` and
// `z32` get copies in float32; `scaled` [kBlock, Padded(d)] and `block` [d + 1, Padded(d)] are scratch.
inline HWY_NOINLINE void AdvanceState(int64_t n, int64_t width, const float* k, const float* v, const float* weight,
                                      float decay, float* scaled, float* block, RunningState& running, float* state32,
                                      float* z32) {
  const int64_t padded = Padded(width);
  float* const block_z = block + width * padded;
  std::fill_n(block, (width + 1) * padded, 0.0f);
  for (int64_t r = 0; r < n; ++r) {
    const float w = weight == nullptr ? 1.0f : weight[r];
    ForEach(padded, [&](auto d, int64_t i) HWY_ATTR {
      const auto row = hn::Mul(hn::LoadU(d, k + r * padded + i), hn::Set(d, w));
      hn::StoreU(row, d, scaled + r * padded + i);
      hn::StoreU(hn::Add(hn::LoadU(d, block_z + i), row), d, block_z + i);
    });
  }
  AddGemm(width, padded, n, {scaled, 1, padded}, v, padded, block, padded);
  AddToState(width * padded, decay, block, running.state, state32);
  AddToState(padded, decay, block_z, running.z, z32);
}

// y_r += weight[r] q_r^T state, c_r += weight[r] q_r . z
inline HWY_NOINLINE void ReadState(int64_t n, int64_t width, const float* q, const float* weight, const float* state,
                                   const float* z, float* scaled, float* y, float* c) {
  const int64_t padded = Padded(width);
  for (int64_t r = 0; r < n; ++r) {
    const float w = weight == nullptr ? 1.0f : weight[r];
    c[r] += SumOver(padded, [&](auto d, int64_t i) HWY_ATTR {
      const auto row = hn::Mul(hn::LoadU(d, q + r * padded + i), hn::Set(d, w));
      hn::StoreU(row, d, scaled + r * padded + i);
      return hn::Mul(row, hn::LoadU(d, z + i));
    });
  }
  AddGemm(n, padded, width, {scaled, padded, 1}, state, padded, y, padded);
}

// The block's own scores: y_i += sum_j M_ij (q_i . k_j) v_j, and c likewise.
inline HWY_NOINLINE void AddInside(int64_t n, int64_t width, const BlockDecay* decay, ChunkScratch& s, float* c) {
  const int64_t padded = Padded(width), columns = Padded(n);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < width; ++i) s.transposed[i * kBlock + j] = s.k[j * padded + i];
  }
  for (int64_t j = n; j < columns; ++j) {
    for (int64_t i = 0; i < width; ++i) s.transposed[i * kBlock + j] = 0;
  }
  std::fill_n(s.scores, kBlock * kBlock, 0.0f);
  AddGemm(n, columns, width, {s.q, padded, 1}, s.transposed, kBlock, s.scores, kBlock);
  if (decay != nullptr) MaskScores(*decay, n, s.scores);
  for (int64_t i = 0; i < n; ++i) {
    const float* row = s.scores + i * kBlock;
    c[i] += SumOver(n, [&](auto d, int64_t j) HWY_ATTR { return hn::LoadU(d, row + j); });
  }
  AddGemm(n, padded, n, {s.scores, kBlock, 1}, s.v, padded, s.y, padded);
}

// emit(place, y, c) with the unnormalised sums of each token. LION-LIT: one state of the whole sequence, no scan.
template <typename T, class Emit>
inline HWY_NOINLINE void ScanWithoutDecay(const HeadView<T>& head, int64_t width, ChunkScratch& s, const Emit& emit) {
  const int64_t padded = Padded(width), length = head.length();
  s.running.Clear(width);
  for (int64_t first = 0; first < length; first += kBlock) {
    const int64_t n = std::min(kBlock, length - first);
    head.Load(1, first, n, s.k);
    head.Load(2, first, n, s.v);
    AdvanceState(n, width, s.k, s.v, nullptr, 1.0f, s.scaled, s.block, s.running, s.state, s.z);
  }
  float c[kBlock];
  for (int64_t first = 0; first < length; first += kBlock) {
    const int64_t n = std::min(kBlock, length - first);
    head.Load(0, first, n, s.q);
    std::fill_n(s.y, n * padded, 0.0f);
    std::fill_n(c, n, 0.0f);
    ReadState(n, width, s.q, nullptr, s.state, s.z, s.scaled, s.y, c);
    for (int64_t r = 0; r < n; ++r) emit(first + r, s.y + r * padded, c[r]);
  }
}

template <typename T, class Emit>
inline HWY_NOINLINE void ScanWithDecay(const HeadView<T>& head, int64_t width, ChunkScratch& s, const Emit& emit) {
  const int64_t padded = Padded(width), length = head.length(), blocks = (length + kBlock - 1) / kBlock;
  BlockDecay decay;
  // From the right: the backward state as it enters each block.
  std::fill_n(s.right_state + (blocks - 1) * width * padded, width * padded, 0.0f);
  std::fill_n(s.right_z + (blocks - 1) * padded, padded, 0.0f);
  s.running.Clear(width);
  for (int64_t b = blocks - 1; b > 0; --b) {
    const int64_t first = b * kBlock, n = std::min(kBlock, length - first);
    head.Load(1, first, n, s.k);
    head.Load(2, first, n, s.v);
    decay.Set(head, first, n);
    AdvanceState(n, width, s.k, s.v, decay.to_left, decay.whole, s.scaled, s.block, s.running,
                 s.right_state + (b - 1) * width * padded, s.right_z + (b - 1) * padded);
  }
  // From the left: the forward state, and the outputs.
  s.running.Clear(width);
  float c[kBlock];
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = b * kBlock, n = std::min(kBlock, length - first);
    head.Load(0, first, n, s.q);
    head.Load(1, first, n, s.k);
    head.Load(2, first, n, s.v);
    decay.Set(head, first, n);
    std::fill_n(s.y, n * padded, 0.0f);
    std::fill_n(c, n, 0.0f);
    AddInside(n, width, &decay, s, c);
    if (b > 0) ReadState(n, width, s.q, decay.from_left, s.state, s.z, s.scaled, s.y, c);
    if (b + 1 < blocks) {
      ReadState(n, width, s.q, decay.from_right, s.right_state + b * width * padded, s.right_z + b * padded, s.scaled,
                s.y, c);
      AdvanceState(n, width, s.k, s.v, decay.to_right, decay.whole, s.scaled, s.block, s.running, s.state, s.z);
    }
    for (int64_t r = 0; r < n; ++r) emit(first + r, s.y + r * padded, c[r]);
  }
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
