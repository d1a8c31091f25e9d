// Rows of q, k and v as operands of the block products: conversion, phi, weights. Included once per instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/cache_control.h"
#include "kernels/cpu/vector-inl.h"

#if defined(LION_KERNELS_CPU_MIXER_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_ROWS_INL_H
#undef LION_KERNELS_CPU_MIXER_ROWS_INL_H
#else
#define LION_KERNELS_CPU_MIXER_ROWS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// Operands have type O, float or uint16_t for bfloat16; their rows are padded with 0 to whole pairs of vectors.
inline constexpr int64_t kOperandPad = 2 * kPad;
constexpr int64_t PaddedOperand(int64_t columns) { return (columns + kOperandPad - 1) / kOperandPad * kOperandPad; }

// exp as exact as what it goes into: for bfloat16 operands within 1e-5 of it, and 0 below exp(-87).
template <class O, class D>
HWY_INLINE V<D> OperandExp(D d, V<D> x) {
  if constexpr (std::is_same_v<O, float>) {
    return ExpKeepingNaN(d, x);
  } else {
    // 2^(n + f) with |f| <= 1/2. 2^f is a least-squares fit of our own on Chebyshev nodes: within 4e-6.
    const hn::RebindToSigned<D> di;
    const auto scaled = hn::Mul(hn::Min(x, hn::Set(d, 88.0f)), hn::Set(d, 1.44269504f));
    const auto n = hn::Round(scaled);
    const auto f = hn::Sub(scaled, n);
    auto p = hn::MulAdd(f, hn::Set(d, 0.0096003955f), hn::Set(d, 0.055916894f));
    p = hn::MulAdd(p, f, hn::Set(d, 0.24023718f));
    p = hn::MulAdd(p, f, hn::Set(d, 0.69312199f));
    p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
    const auto power = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
    const auto result = hn::BitCast(d, hn::Add(hn::BitCast(di, p), power));
    const auto kept = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), result);
    // Not Highway's NaN, whose payload StorePair would not bear.
    const auto nan = hn::BitCast(d, hn::Set(di, 0x7fc00000));
    return hn::IfThenElse(hn::IsNaN(x), nan, kept);
  }
}

// phi but for the norm of kNormalizedSilu.
template <FeatureMap kMap, class O, class D>
HWY_INLINE V<D> PhiBeforeNorm(D d, V<D> v) {
  const auto one = hn::Set(d, 1.0f);
  if constexpr (kMap == FeatureMap::kEluPlusOne) {
    return hn::IfThenElse(hn::Gt(v, hn::Zero(d)), hn::Add(v, one), OperandExp<O>(d, v));
  } else if constexpr (kMap == FeatureMap::kNormalizedSilu) {
    const auto sum = hn::Add(one, OperandExp<O>(d, hn::Neg(v)));
    if constexpr (std::is_same_v<O, float>) return hn::Add(hn::Div(v, sum), hn::Set(d, 0.5f));
    // One step of Newton's after the approximation; 0 where the sum is so large that its reciprocal is denormal.
    const auto guess = hn::ApproximateReciprocal(sum);
    const auto sigmoid = hn::Mul(guess, hn::NegMulAdd(sum, guess, hn::Set(d, 2.0f)));
    return hn::MulAdd(v, sigmoid, hn::Set(d, 0.5f));
  } else {
    return v;
  }
}

// One vector of a row at i, 0 beyond the row's end.
template <class D, typename T>
HWY_INLINE V<D> LoadInRow(D d, const T* row, int64_t i, int64_t width) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (HWY_LIKELY(i + lanes <= width)) return LoadF32(d, row + i);
  HWY_ALIGN T rest[kPad] = {};
  if (i < width) std::memcpy(rest, row + i, static_cast<size_t>(width - i) * sizeof(T));
  return LoadF32(d, rest);
}
template <class D>
HWY_INLINE V<D> ZeroBeyond(D d, V<D> v, int64_t i, int64_t width) {
  if (HWY_LIKELY(i + static_cast<int64_t>(hn::Lanes(d)) <= width)) return v;
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(0, width - i))), v);
}

// Rows of one head lie far apart: no processor foresees where the next one is.
template <class Row>
HWY_INLINE void PrefetchAhead(int64_t r, int64_t rows, int64_t width, const Row& row) {
  constexpr int64_t kAhead = 12, kLine = 64;
  if (r + kAhead >= rows) return;
  const auto* const begin = row(r + kAhead);
  const char* const bytes = reinterpret_cast<const char*>(begin);
  for (int64_t i = 0; i < width * static_cast<int64_t>(sizeof(*begin)); i += kLine) hwy::Prefetch(bytes + i);
}

// phi of `rows` rows of `width` values to out [rows, PaddedOperand(width)]; row(r) is where the r-th is. kWhole: rows
// need no padding.
template <FeatureMap kMap, bool kWhole, typename O, class Row>
HWY_NOINLINE void LoadPhi(int64_t rows, int64_t width, const Row& row, O* out) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), padded = kWhole ? width : PaddedOperand(width);
  HWY_ALIGN float line[PaddedOperand(256)];
  for (int64_t r = 0; r < rows; ++r, out += padded) {
    PrefetchAhead(r, rows, width, row);
    const auto* in = row(r);
    auto squares = hn::Zero(d), more_squares = hn::Zero(d);
    for (int64_t i = 0; i < padded; i += 2 * lanes) {
      const int64_t j = i + lanes;
      auto a = PhiBeforeNorm<kMap, O>(d, kWhole ? LoadF32(d, in + i) : LoadInRow(d, in, i, width));
      auto b = PhiBeforeNorm<kMap, O>(d, kWhole ? LoadF32(d, in + j) : LoadInRow(d, in, j, width));
      if (!kWhole) a = ZeroBeyond(d, a, i, width), b = ZeroBeyond(d, b, j, width);
      if constexpr (kMap != FeatureMap::kNormalizedSilu) {
        StorePair(d, a, b, out + i);
      } else {
        squares = hn::MulAdd(a, a, squares);
        more_squares = hn::MulAdd(b, b, more_squares);
        hn::Store(a, d, line + i);
        hn::Store(b, d, line + j);
      }
    }
    if constexpr (kMap == FeatureMap::kNormalizedSilu) {
      const float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(squares, more_squares)));
      const auto scale = hn::Set(d, 1.0f / std::sqrt(sum));
      for (int64_t i = 0; i < padded; i += 2 * lanes) {
        StorePair(d, hn::Mul(hn::Load(d, line + i), scale), hn::Mul(hn::Load(d, line + i + lanes), scale), out + i);
      }
    }
  }
}

template <FeatureMap kMap, typename O, class Row>
HWY_INLINE void LoadPhi(int64_t rows, int64_t width, const Row& row, O* out) {
  if (width == PaddedOperand(width)) {
    LoadPhi<kMap, true>(rows, width, row, out);
  } else {
    LoadPhi<kMap, false>(rows, width, row, out);
  }
}

template <typename O, class Row>
HWY_INLINE void LoadPhi(FeatureMap map, int64_t rows, int64_t width, const Row& row, O* out) {
  switch (map) {
    case FeatureMap::kIdentity:
      return LoadPhi<FeatureMap::kIdentity>(rows, width, row, out);
    case FeatureMap::kEluPlusOne:
      return LoadPhi<FeatureMap::kEluPlusOne>(rows, width, row, out);
    case FeatureMap::kNormalizedSilu:
      return LoadPhi<FeatureMap::kNormalizedSilu>(rows, width, row, out);
  }
}

// `count` values, a multiple of kOperandPad.
template <typename O>
HWY_INLINE void CopyOperand(const O* from, int64_t count, O* to) {
  const hn::CappedTag<O, kOperandPad> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
}

// The rows themselves, likewise.
template <typename O, class Row>
HWY_NOINLINE void LoadRows(int64_t rows, int64_t width, const Row& row, O* out) {
  const int64_t padded = PaddedOperand(width);
  for (int64_t r = 0; r < rows; ++r, out += padded) {
    PrefetchAhead(r, rows, width, row);
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*row(0))>, O>) {
      if (width == padded) {
        CopyOperand(row(r), width, out);
        continue;
      }
    }
    ConvertRow(row(r), width, out);
    std::fill(out + width, out + padded, O{0});
  }
}

// To [n, kDirections padded]: weights[0][r] k_r beside weights[1][r] k_r; sums [kDirections, padded] of each over the
// rows. One direction: weights 1.
template <int kDirections, typename O>
HWY_NOINLINE void WeighKeys(int64_t n, int64_t padded, const O* k, const float* const weights[2], O* out, float* sums) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < padded; i += 2 * lanes) {
    V<F32> sum[kDirections][2];
    for (auto& pair : sum) pair[0] = pair[1] = hn::Zero(d);
    for (int64_t r = 0; r < n; ++r) {
      const auto a = LoadF32(d, k + r * padded + i), b = LoadF32(d, k + r * padded + i + lanes);
      for (int direction = 0; direction < kDirections; ++direction) {
        auto weighted_a = a, weighted_b = b;
        if constexpr (kDirections == 2) {
          const auto w = hn::Set(d, weights[direction][r]);
          weighted_a = hn::Mul(a, w), weighted_b = hn::Mul(b, w);
          StorePair(d, weighted_a, weighted_b, out + (r * kDirections + direction) * padded + i);
        }
        sum[direction][0] = hn::Add(sum[direction][0], weighted_a);
        sum[direction][1] = hn::Add(sum[direction][1], weighted_b);
      }
    }
    for (int direction = 0; direction < kDirections; ++direction) {
      StorePair(d, sum[direction][0], sum[direction][1], sums + direction * padded + i);
    }
  }
}

// One direction: c[r] = q_r . z[0]. Two: c[r] = the sum over both of weights[direction][r] q_r . z[direction], and the
// weighted rows side by side to out, whose rows are out_row apart.
template <int kDirections, typename O>
HWY_NOINLINE void WeighQueries(int64_t n, int64_t padded, const O* q, const float* const weights[2], const float* z,
                               O* out, int64_t out_row, float* c) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < n; ++r, q += padded, out += out_row) {
    V<F32> sum[kDirections], w[kDirections];
    for (int direction = 0; direction < kDirections; ++direction) {
      sum[direction] = hn::Zero(d);
      w[direction] = hn::Set(d, kDirections == 2 ? weights[direction][r] : 1.0f);
    }
    for (int64_t i = 0; i < padded; i += 2 * lanes) {
      const auto a = LoadF32(d, q + i), b = LoadF32(d, q + i + lanes);
      for (int direction = 0; direction < kDirections; ++direction) {
        const float* z_row = z + direction * padded + i;
        sum[direction] = hn::MulAdd(a, hn::LoadU(d, z_row), sum[direction]);
        sum[direction] = hn::MulAdd(b, hn::LoadU(d, z_row + lanes), sum[direction]);
        if constexpr (kDirections == 2) {
          StorePair(d, hn::Mul(a, w[direction]), hn::Mul(b, w[direction]), out + direction * padded + i);
        }
      }
    }
    auto total = hn::Mul(sum[0], w[0]);
    if constexpr (kDirections == 2) total = hn::MulAdd(sum[1], w[1], total);
    c[r] = hn::GetLane(hn::SumOfLanes(d, total));
  }
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
