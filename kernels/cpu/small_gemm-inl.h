// Products of small float32 matrices that stay in cache; included once per instruction set.
#include <cstdint>

#include "kernels/cpu/vector-inl.h"

#if defined(LION_KERNELS_CPU_SMALL_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_SMALL_GEMM_INL_H
#undef LION_KERNELS_CPU_SMALL_GEMM_INL_H
#else
#define LION_KERNELS_CPU_SMALL_GEMM_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// A strided operand: element (i, k) at data[i * row + k * column].
struct Strided {
  const float* data;
  int64_t row;
  int64_t column;
};

// kRows x kVectors vectors of C += A B, summed in registers first: a long chain of additions to a large C loses digits.
template <int kRows, int kVectors>
HWY_INLINE void GemmTile(int64_t depth, const Strided& a, const float* b, int64_t b_row, float* c, int64_t c_row) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<F32> sum[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    hn::Vec<F32> row[kVectors];
    for (int j = 0; j < kVectors; ++j) row[j] = hn::LoadU(d, b + k * b_row + j * lanes);
    for (int i = 0; i < kRows; ++i) {
      const auto element = hn::Set(d, a.data[i * a.row + k * a.column]);
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(element, row[j], sum[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_row + j * lanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), sum[i][j]), d, to);
    }
  }
}

template <int kRows>
HWY_INLINE void GemmRows(int64_t columns, int64_t depth, const Strided& a, const float* b, int64_t b_row, float* c,
                         int64_t c_row) {
  // As many accumulators as leave registers for B: 32 registers with AVX-512, 16 before.
  constexpr int kVectors = HWY_MAX_BYTES >= 64 ? 4 : 2;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32()));
  int64_t j = 0;
  for (; j + kVectors * lanes <= columns; j += kVectors * lanes) {
    GemmTile<kRows, kVectors>(depth, a, b + j, b_row, c + j, c_row);
  }
  for (; j < columns; j += lanes) GemmTile<kRows, 1>(depth, a, b + j, b_row, c + j, c_row);
}

// C [rows, columns] += A [rows, depth] B [depth, columns]. `columns` is a multiple of kPad; b_row and c_row are the
// distances of rows.
inline HWY_NOINLINE void AddGemm(int64_t rows, int64_t columns, int64_t depth, Strided a, const float* b, int64_t b_row,
                                 float* c, int64_t c_row) {
  constexpr int kRows = HWY_MAX_BYTES >= 64 ? 6 : 4;
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) {
    GemmRows<kRows>(columns, depth, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row, c_row);
  }
  for (; i < rows; ++i) {
    GemmRows<1>(columns, depth, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row, c_row);
  }
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
