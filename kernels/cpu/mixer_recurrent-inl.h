// The plain recurrence of the mixer, token by token: memory O(L d), no products of matrices. For comparison and tests.
// Included once per instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/mixer_scan-inl.h"

#if defined(LION_KERNELS_CPU_MIXER_RECURRENT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_RECURRENT_INL_H
#undef LION_KERNELS_CPU_MIXER_RECURRENT_INL_H
#else
#define LION_KERNELS_CPU_MIXER_RECURRENT_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// One direction's step: S = lambda S + k v^T and z = lambda z + k; y += q^T (S - k v^T / 2), c += q . (z - k / 2). Sums
// are float64.
inline HWY_NOINLINE void RecurrentStep(int64_t width, double lambda, const float* q, const float* k, const float* v,
                                       RunningState& running, float* y, float* c) {
  const hn::CappedTag<double, 8> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  const int64_t padded = Padded(width), lanes = static_cast<int64_t>(hn::Lanes(d64));
  double sum_c = 0;
  for (int64_t a = 0; a < width; ++a) {
    running.z[a] = lambda * running.z[a] + k[a];
    sum_c += q[a] * (running.z[a] - 0.5 * k[a]);
  }
  *c += static_cast<float>(sum_c);
  for (int64_t i = 0; i < padded; i += lanes) {
    auto sum_y = hn::Zero(d64);
    const auto v_i = hn::PromoteTo(d64, hn::LoadU(d32, v + i));
    for (int64_t a = 0; a < width; ++a) {
      double* state = running.state + a * padded + i;
      const auto kv = hn::Mul(hn::Set(d64, k[a]), v_i);
      const auto s = hn::MulAdd(hn::LoadU(d64, state), hn::Set(d64, lambda), kv);
      hn::StoreU(s, d64, state);
      sum_y = hn::MulAdd(hn::Set(d64, q[a]), hn::NegMulAdd(hn::Set(d64, 0.5), kv, s), sum_y);
    }
    hn::StoreU(hn::Add(hn::LoadU(d32, y + i), hn::DemoteTo(d32, sum_y)), d32, y + i);
  }
}

// The steps of one block in one direction; y [n, Padded(d)] and c [n] are added to.
template <typename T>
inline HWY_NOINLINE void RecurrentBlock(const HeadView<T>& head, int64_t width, int64_t first, int64_t n, bool forward,
                                        const ScanScratch& s, RunningState& running, float* c) {
  const int64_t padded = Padded(width);
  for (int64_t step = 0; step < n; ++step) {
    const int64_t r = forward ? step : n - 1 - step, neighbour = first + r + (forward ? -1 : 1);
    // At either end of the sequence the state is 0 and its decay does not matter.
    const bool end = neighbour < 0 || neighbour >= head.length();
    const double lambda = end || !head.decays() ? 1.0 : std::exp(static_cast<double>(head.LogDecay(neighbour)));
    RecurrentStep(width, lambda, s.q + r * padded, s.k + r * padded, s.v + r * padded, running, s.y + r * padded,
                  c + r);
  }
}

inline HWY_NOINLINE void SaveState(int64_t width, const RunningState& running, float* state, float* z) {
  for (int64_t i = 0; i < width * Padded(width); ++i) state[i] = static_cast<float>(running.state[i]);
  for (int64_t i = 0; i < Padded(width); ++i) z[i] = static_cast<float>(running.z[i]);
}
inline HWY_NOINLINE void RestoreState(int64_t width, const float* state, const float* z, RunningState& running) {
  std::copy_n(state, width * Padded(width), running.state);
  std::copy_n(z, Padded(width), running.z);
}

// The backward pass only saves its state before each block; the block's steps are taken again beside the forward ones,
// so that no more than a block of outputs exists at a time.
template <typename T, class Emit>
inline HWY_NOINLINE void ScanRecurrent(const HeadView<T>& head, int64_t width, ScanScratch& s, const Emit& emit) {
  const int64_t padded = Padded(width), length = head.length(), blocks = (length + kBlock - 1) / kBlock;
  float c[kBlock];
  const auto load = [&](int64_t first, int64_t n) {
    head.Load(0, first, n, s.q);
    head.Load(1, first, n, s.k);
    head.Load(2, first, n, s.v);
    std::fill_n(s.y, n * padded, 0.0f);
    std::fill_n(c, n, 0.0f);
  };
  s.forward.Clear(width);
  for (int64_t b = blocks - 1; b >= 0; --b) {
    const int64_t first = b * kBlock, n = std::min(kBlock, length - first);
    SaveState(width, s.forward, s.right_state + b * width * padded, s.right_z + b * padded);
    load(first, n);
    RecurrentBlock(head, width, first, n, false, s, s.forward, c);
  }
  s.forward.Clear(width);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = b * kBlock, n = std::min(kBlock, length - first);
    load(first, n);
    RecurrentBlock(head, width, first, n, true, s, s.forward, c);
    RestoreState(width, s.right_state + b * width * padded, s.right_z + b * padded, s.backward);
    RecurrentBlock(head, width, first, n, false, s, s.backward, c);
    for (int64_t r = 0; r < n; ++r) emit(first + r, s.y + r * padded, c[r]);
  }
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
