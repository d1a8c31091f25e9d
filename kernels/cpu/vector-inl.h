// Vector building blocks of the CPU kernels; included once per instruction set (Highway's foreach_target).
// No ordinary include guard: see HWY_ONCE and the toggle below.
#include <cmath>
#include <cstdint>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/linear.h"
#include "kernels/types.h"

#if defined(LION_KERNELS_CPU_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_VECTOR_INL_H
#undef LION_KERNELS_CPU_VECTOR_INL_H
#else
#define LION_KERNELS_CPU_VECTOR_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: what buffers with padded rows are padded to.
using F32 = hn::CappedTag<float, 16>;
using F32x1 = hn::CappedTag<float, 1>;
inline constexpr int64_t kPad = 16;
constexpr int64_t Padded(int64_t columns) { return (columns + kPad - 1) / kPad * kPad; }

template <class D>
using V = hn::Vec<D>;

// Loads and stores of either activation type as float32.
template <class D>
HWY_INLINE V<D> LoadF32([[maybe_unused]] D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE V<D> LoadF32([[maybe_unused]] D d, const uint16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p))));
}
template <class D>
HWY_INLINE void StoreF32([[maybe_unused]] D d, V<D> v, float* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void StoreF32([[maybe_unused]] D d, V<D> v, uint16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
  const auto nan = hn::RebindMask(du, hn::IsNaN(v));
  hn::StoreU(hn::TruncateTo(d16, hn::IfThenElse(nan, quiet, rounded)), d16, p);
}

// body(tag, i) for all i in [0, n): whole vectors first, the rest one by one.
template <class Body>
HWY_INLINE void ForEach(int64_t n, const Body& body) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  for (; i < n; ++i) body(F32x1(), i);
}

// The sum over i in [0, n) of term(tag, i), in an order that depends on n alone.
template <class Term>
HWY_INLINE float SumOver(int64_t n, const Term& term) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sum0 = hn::Add(sum0, term(d, i));
    sum1 = hn::Add(sum1, term(d, i + lanes));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, term(d, i));
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; ++i) sum += hn::GetLane(term(F32x1(), i));
  return sum;
}

template <typename In, typename Out>
HWY_INLINE void ConvertRow(const In* in, int64_t n, Out* out) {
  ForEach(n, [&](auto d, int64_t i) HWY_ATTR { StoreF32(d, LoadF32(d, in + i), out + i); });
}

// out = norm(in); out may be in.
template <typename Out>
inline HWY_NOINLINE void NormRow(const float* in, int64_t n, const NormParameters& norm, Out* out) {
  const float mean =
      SumOver(n, [&](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, in + i); }) / static_cast<float>(n);
  const float variance = SumOver(n,
                                 [&](auto d, int64_t i) HWY_ATTR {
                                   const auto centred = hn::Sub(hn::LoadU(d, in + i), hn::Set(d, mean));
                                   return hn::Mul(centred, centred);
                                 }) /
                         static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(variance + norm.epsilon);
  ForEach(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto unit = hn::Mul(hn::Sub(hn::LoadU(d, in + i), hn::Set(d, mean)), hn::Set(d, scale));
    StoreF32(d, hn::MulAdd(unit, hn::LoadU(d, norm.gamma + i), hn::LoadU(d, norm.beta + i)), out + i);
  });
}

// x / 2 (1 + erf(x / sqrt(2))). erf(u) = u P(2 u^2 / 3.92^2 - 1) for |u| < 3.92, a least-squares fit of our own on
// Chebyshev nodes: within 3e-7 of erf in float32; +-1 beyond, where erf is nearer to that than float32 can say.
template <class D>
HWY_INLINE V<D> Gelu(D d, V<D> x) {
  static constexpr float kP[15] = {0.36073684692382812f,   -0.18010902404785156f,   0.13408163189888f,
                                   -0.1091625913977623f,   0.09064999967813492f,    -0.07422103732824326f,
                                   0.05804057791829109f,   -0.042374953627586365f,  0.03081999160349369f,
                                   -0.02284623682498932f,  0.01240625325590372f,    -0.0035915325861424208f,
                                   0.0033466473687440157f, -0.0043327296152710915f, 0.001658222172409296f};
  constexpr float kLimit = 3.92f;
  const auto u = hn::Mul(x, hn::Set(d, 0.70710678118654752f));
  const auto inside = hn::Lt(hn::Abs(u), hn::Set(d, kLimit));
  const auto t = hn::MulAdd(hn::Mul(u, u), hn::Set(d, 2.0f / (kLimit * kLimit)), hn::Set(d, -1.0f));
  auto p = hn::Set(d, kP[14]);
  for (int i = 13; i >= 0; --i) p = hn::MulAdd(p, t, hn::Set(d, kP[i]));
  const auto one = hn::Set(d, 1.0f);
  const auto erf = hn::IfThenElse(inside, hn::Mul(u, p), hn::CopySign(one, u));
  return hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)), hn::Add(one, erf));
}

// A fault must not vanish: Highway's functions turn NaN into numbers. Nor is its exp defined for arguments far above
// 88, where float32 overflows: exp(88) stands for all larger.
template <class D>
HWY_INLINE V<D> KeepNaN(V<D> argument, V<D> result) {
  return hn::IfThenElse(hn::IsNaN(argument), argument, result);
}

template <class D>
HWY_INLINE V<D> ExpKeepingNaN(D d, V<D> x) {
  return KeepNaN<D>(x, hn::Exp(d, hn::Min(x, hn::Set(d, 88.0f))));
}

// log(1 + exp(z)), never overflowing.
template <class D>
HWY_INLINE V<D> Softplus(D d, V<D> z) {
  return KeepNaN<D>(z, hn::Add(hn::Max(z, hn::Zero(d)), hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(z))))));
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
