// Vector building blocks of the CPU kernels; included once per instruction set (Highway's foreach_target).
// No ordinary include guard: see HWY_ONCE and the toggle below.
#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>

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

// a and b side by side. To bfloat16 the rounding is to nearest, ties away from zero: two instructions less than to even
// for each vector. A NaN stays NaN unless its low 16 bits carry a payload over 0x7fff, which neither arithmetic nor a
// bfloat16 input makes.
template <class D>
HWY_INLINE void StorePair(D d, V<D> a, V<D> b, float* p) {
  hn::StoreU(a, d, p);
  hn::StoreU(b, d, p + hn::Lanes(d));
}
template <class D>
HWY_INLINE void StorePair([[maybe_unused]] D d, V<D> a, V<D> b, uint16_t* p) {
#if HWY_TARGET == HWY_SCALAR
  StoreF32(d, a, p);
  StoreF32(d, b, p + 1);
#else
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint16_t, D> d16;
  const auto half = hn::Set(du, 0x8000u);
  const auto low = hn::BitCast(d16, hn::Add(hn::BitCast(du, a), half));
  const auto high = hn::BitCast(d16, hn::Add(hn::BitCast(du, b), half));
  hn::StoreU(hn::ConcatOdd(d16, high, low), d16, p);
#endif
}

// out[i] = value(tag, i) for all i in [0, n), two vectors at a time. Any NaN stays one.
template <typename Out, class Value>
HWY_INLINE void StoreRow(int64_t n, Out* out, const Value& value) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto plain = [&](auto v) HWY_ATTR {
    if constexpr (std::is_same_v<Out, float>) return v;
    // Not Highway's NaN, whose payload StorePair would not bear.
    const auto nan = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<F32>(), 0x7fc00000u));
    return hn::IfThenElse(hn::IsNaN(v), nan, v);
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) StorePair(d, plain(value(d, i)), plain(value(d, i + lanes)), out + i);
  for (; i + lanes <= n; i += lanes) StoreF32(d, value(d, i), out + i);
  for (; i < n; ++i) StoreF32(F32x1(), value(F32x1(), i), out + i);
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
template <typename In, typename Out>
inline HWY_NOINLINE void NormRow(const In* in, int64_t n, const NormParameters& norm, Out* out) {
  const float mean = SumOver(n, [&](auto d, int64_t i) HWY_ATTR { return LoadF32(d, in + i); }) / static_cast<float>(n);
  const float variance = SumOver(n,
                                 [&](auto d, int64_t i) HWY_ATTR {
                                   const auto centred = hn::Sub(LoadF32(d, in + i), hn::Set(d, mean));
                                   return hn::Mul(centred, centred);
                                 }) /
                         static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(variance + norm.epsilon);
  StoreRow(n, out, [&](auto d, int64_t i) HWY_ATTR {
    const auto unit = hn::Mul(hn::Sub(LoadF32(d, in + i), hn::Set(d, mean)), hn::Set(d, scale));
    return hn::MulAdd(unit, hn::LoadU(d, norm.gamma + i), hn::LoadU(d, norm.beta + i));
  });
}

// x / 2 (1 + erf(x / sqrt(2))), as exact as what it is stored in (Out). erf(u) = u P(2 u^2 / limit^2 - 1) for |u| <
// limit, least-squares fits of our own on Chebyshev nodes; +-1 beyond. For float: within 3e-7 of erf, and beyond 3.92
// erf is nearer to +-1 than float32 can say. For bfloat16 (uint16_t): the result is within 1.4e-5, and within 0.3 of
// the last place of a bfloat16 where it is over 1e-3.
template <typename Out>
struct ErfFit {
  static constexpr float kLimit = 3.92f;
  static constexpr float kP[] = {0.36073684692382812f,   -0.18010902404785156f,   0.13408163189888f,
                                 -0.1091625913977623f,   0.09064999967813492f,    -0.07422103732824326f,
                                 0.05804057791829109f,   -0.042374953627586365f,  0.03081999160349369f,
                                 -0.02284623682498932f,  0.01240625325590372f,    -0.0035915325861424208f,
                                 0.0033466473687440157f, -0.0043327296152710915f, 0.001658222172409296f};
};
template <>
struct ErfFit<uint16_t> {
  static constexpr float kLimit = 3.2f;
  static constexpr float kP[] = {0.4413347542285919f,    -0.21730200946331024f,  0.1543205827474594f,
                                 -0.11373843252658844f,  0.08094792068004608f,   -0.05433418229222298f,
                                 0.032155975699424744f,  -0.015806253999471664f, 0.009277435950934887f,
                                 -0.006752740126103163f, 0.0023954473435878754f};
};

template <typename Out, class D>
HWY_INLINE V<D> Gelu(D d, V<D> x) {
  constexpr float kLimit = ErfFit<Out>::kLimit;
  constexpr int kDegree = static_cast<int>(std::size(ErfFit<Out>::kP)) - 1;
  const auto u = hn::Mul(x, hn::Set(d, 0.70710678118654752f));
  const auto inside = hn::Lt(hn::Abs(u), hn::Set(d, kLimit));
  const auto t = hn::MulAdd(hn::Mul(u, u), hn::Set(d, 2.0f / (kLimit * kLimit)), hn::Set(d, -1.0f));
  auto p = hn::Set(d, ErfFit<Out>::kP[kDegree]);
  for (int i = kDegree - 1; i >= 0; --i) p = hn::MulAdd(p, t, hn::Set(d, ErfFit<Out>::kP[i]));
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
