#include "server/image/resize_kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/image/resize_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lion {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR  // x86 without SSSE3: one lane, and no blocks of 16

uint8_t Rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp((sum + (1 << (kResampleBits - 1))) >> kResampleBits, 0, 255));
}

void TransposeRows(const uint8_t* const* rows, int64_t bytes, uint8_t* columns) {
  for (int64_t i = 0; i < bytes; ++i) {
    for (int r = 0; r < 16; ++r) columns[i * 16 + r] = rows[r][i];
  }
}

void TransposeColumns(const uint8_t* columns, int64_t bytes, uint8_t* const* rows) {
  for (int64_t i = 0; i < bytes; ++i) {
    for (int r = 0; r < 16; ++r) rows[r][i] = columns[i * 16 + r];
  }
}

void ResampleColumns(const uint8_t* columns, int64_t first_column, const ResampleWeights& weights, uint8_t* out) {
  for (int64_t o = 0; o < weights.outputs(); ++o, out += 48) {
    const uint8_t* from = columns + (weights.begin[o] - first_column) * 48;
    for (int64_t i = 0; i < 48; ++i) {
      int32_t sum = 0;
      for (int64_t j = 0; j < weights.count[o]; ++j) sum += weights.values[o * weights.stride + j] * from[j * 48 + i];
      out[i] = Rounded(sum);
    }
  }
}

void ResampleRows(const uint8_t* const* rows, const int32_t* weights, int64_t count, int64_t bytes, uint8_t* out) {
  for (int64_t i = 0; i < bytes; ++i) {
    int32_t sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += weights[j] * rows[j][i];
    out[i] = Rounded(sum);
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// 16 lanes of 32 bits where the machine has them, else fewer: the loops below step through the 16 rows of a block.
using Sums = hn::CappedTag<int32_t, 16>;
using Bytes = hn::Rebind<uint8_t, Sums>;
using Block = hn::FixedTag<uint8_t, 16>;

// One step of a 16 x 16 transposition: four of them, each interleaving row r with row r + 8, move row to column.
HWY_INLINE void Interleave(const uint8_t* HWY_RESTRICT in, uint8_t* HWY_RESTRICT out) {
  const Block d;
  for (int r = 0; r < 8; ++r) {
    const auto a = hn::Load(d, in + r * 16);
    const auto b = hn::Load(d, in + (r + 8) * 16);
    hn::Store(hn::InterleaveLower(d, a, b), d, out + r * 32);
    hn::Store(hn::InterleaveUpper(d, a, b), d, out + r * 32 + 16);
  }
}

HWY_INLINE void Transpose16x16(uint8_t* HWY_RESTRICT a, uint8_t* HWY_RESTRICT b) {
  Interleave(a, b);
  Interleave(b, a);
  Interleave(a, b);
  Interleave(b, a);
}

void TransposeRows(const uint8_t* const* rows, int64_t bytes, uint8_t* columns) {
  const Block d;
  HWY_ALIGN uint8_t a[256];
  HWY_ALIGN uint8_t b[256];
  for (int64_t i = 0; i < bytes; i += 16) {
    for (int r = 0; r < 16; ++r) hn::Store(hn::LoadU(d, rows[r] + i), d, a + r * 16);
    Transpose16x16(a, b);
    for (int r = 0; r < 16; ++r) hn::StoreU(hn::Load(d, a + r * 16), d, columns + (i + r) * 16);
  }
}

void TransposeColumns(const uint8_t* columns, int64_t bytes, uint8_t* const* rows) {
  const Block d;
  HWY_ALIGN uint8_t a[256];
  HWY_ALIGN uint8_t b[256];
  for (int64_t i = 0; i < bytes; i += 16) {
    for (int r = 0; r < 16; ++r) hn::Store(hn::LoadU(d, columns + (i + r) * 16), d, a + r * 16);
    Transpose16x16(a, b);
    for (int r = 0; r < 16; ++r) hn::StoreU(hn::Load(d, a + r * 16), d, rows[r] + i);
  }
}

// |sum| stays below 1.3 * 255 * 2^22 < 2^31: the negative lobes of the filter are small.
template <class V>
HWY_INLINE void StoreRounded(V sums, uint8_t* out) {
  hn::StoreU(hn::DemoteTo(Bytes(), hn::ShiftRight<kResampleBits>(sums)), Bytes(), out);
}

void ResampleColumns(const uint8_t* columns, int64_t first_column, const ResampleWeights& weights, uint8_t* out) {
  const Sums d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 1 << (kResampleBits - 1));
  for (int64_t o = 0; o < weights.outputs(); ++o, out += 48) {
    const uint8_t* HWY_RESTRICT from = columns + (weights.begin[o] - first_column) * 48;
    const int32_t* HWY_RESTRICT weight = weights.values.data() + o * weights.stride;
    const int64_t count = weights.count[o];
    for (int64_t lane = 0; lane < 16; lane += lanes) {
      auto red = half;
      auto green = half;
      auto blue = half;
      const uint8_t* HWY_RESTRICT in = from + lane;
      for (int64_t j = 0; j < count; ++j, in += 48) {
        const auto w = hn::Set(d, weight[j]);
        red = hn::Add(red, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(Bytes(), in))));
        green = hn::Add(green, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(Bytes(), in + 16))));
        blue = hn::Add(blue, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(Bytes(), in + 32))));
      }
      StoreRounded(red, out + lane);
      StoreRounded(green, out + lane + 16);
      StoreRounded(blue, out + lane + 32);
    }
  }
}

void ResampleRows(const uint8_t* const* rows, const int32_t* weights, int64_t count, int64_t bytes, uint8_t* out) {
  const Sums d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 1 << (kResampleBits - 1));
  for (int64_t i = 0; i < bytes; i += lanes) {
    auto sums = half;
    for (int64_t j = 0; j < count; ++j) {
      const auto in = hn::PromoteTo(d, hn::LoadU(Bytes(), rows[j] + i));
      sums = hn::Add(sums, hn::Mul(hn::Set(d, weights[j]), in));
    }
    StoreRounded(sums, out + i);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace lion
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lion {

HWY_EXPORT(TransposeRows);
HWY_EXPORT(TransposeColumns);
HWY_EXPORT(ResampleColumns);
HWY_EXPORT(ResampleRows);

void TransposeRows(const uint8_t* const rows[kBlockRows], int64_t bytes, uint8_t* columns) {
  HWY_DYNAMIC_DISPATCH(TransposeRows)(rows, bytes, columns);
}

void TransposeColumns(const uint8_t* columns, int64_t bytes, uint8_t* const rows[kBlockRows]) {
  HWY_DYNAMIC_DISPATCH(TransposeColumns)(columns, bytes, rows);
}

void ResampleColumns(const uint8_t* columns, int64_t first_column, const ResampleWeights& weights, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ResampleColumns)(columns, first_column, weights, out);
}

void ResampleRows(const uint8_t* const* rows, const int32_t* weights, int64_t count, int64_t bytes, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ResampleRows)(rows, weights, count, bytes, out);
}

}  // namespace lion
#endif  // HWY_ONCE
