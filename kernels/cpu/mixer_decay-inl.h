// Decays inside one block of tokens (docs/mathematics.md, section 1). Included once per instruction set.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/mixer_head-inl.h"
#include "kernels/cpu/mixer_rows-inl.h"

#if defined(LION_KERNELS_CPU_MIXER_DECAY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_DECAY_INL_H
#undef LION_KERNELS_CPU_MIXER_DECAY_INL_H
#else
#define LION_KERNELS_CPU_MIXER_DECAY_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// exp of float64 arguments x(r), r in [0, count), as far as an operand of type O can tell.
template <typename O, class Argument>
HWY_INLINE void ExpOf(int64_t count, const Argument& x, float* result) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < count; ++r) result[r] = static_cast<float>(x(r));
  for (int64_t r = 0; r < count; r += lanes) hn::StoreU(OperandExp<O>(d, hn::LoadU(d, result + r)), d, result + r);
}

// Decays of the tokens l_0 .. l_{n-1} of one block; l is 0 beyond. Prefix sums are float64: their differences stay
// exact beside saturated gates, whose logarithms are large.
template <typename O>
class BlockDecay {
 public:
  float from_left[kBlock];   // exp(prefix[r]): what the forward state has decayed by when it reaches token r
  float to_right[kBlock];    // exp(prefix[n] - prefix[r]): what token r has decayed by when it leaves to the right
  float from_right[kBlock];  // exp(prefix[n] - prefix[r + 1])
  float to_left[kBlock];     // exp(prefix[r + 1])
  float whole = 1;           // exp(prefix[n])

  template <typename T>
  HWY_NOINLINE void Set(const HeadView<T>& head, int64_t first, int64_t n) {
    prefix_[0] = 0;
    for (int64_t r = 0; r < n; ++r) prefix_[r + 1] = prefix_[r] + (head.decays() ? head.LogDecay(first + r) : 0.0f);
    std::fill(prefix_ + n + 1, prefix_ + kBlock + kPad, prefix_[n]);
    ExpOf<O>(
        kBlock, [&](int64_t r) { return prefix_[r]; }, from_left);
    ExpOf<O>(
        kBlock, [&](int64_t r) { return prefix_[n] - prefix_[r]; }, to_right);
    ExpOf<O>(
        kBlock, [&](int64_t r) { return prefix_[n] - prefix_[r + 1]; }, from_right);
    ExpOf<O>(
        kBlock, [&](int64_t r) { return prefix_[r + 1]; }, to_left);
    whole = to_left[n - 1];
    constant_ = !head.decays() || head.constant_decay();
    if (!constant_) return;
    for (int64_t r = 0; r < n; ++r) powers_[kBlock - 1 + r] = powers_[kBlock - 1 - r] = from_left[r];
    for (int64_t r = n; r < kBlock; ++r) powers_[kBlock - 1 + r] = powers_[kBlock - 1 - r] = 0;
  }

  // Prepares MaskRow for rows [i0, i0 + kPad) of a block of `columns` tokens, a multiple of kPad as i0 is. Outside
  // these rows' own square an element is exp(prefix[i] - prefix[i0]) exp(prefix[i0] - prefix[j]): both factors decay,
  // so that neither can overflow, and where one is 0 so is the product. (On the right of it with i0 + kPad.)
  HWY_NOINLINE void SetRows(int64_t i0, int64_t columns) {
    if (constant_) return;
    const int64_t end = i0 + kPad;
    first_row_ = i0;
    ExpOf<O>(
        kPad, [&](int64_t r) { return prefix_[i0 + r] - prefix_[i0]; }, row_left_);
    ExpOf<O>(
        kPad, [&](int64_t r) { return prefix_[end] - prefix_[i0 + r + 1]; }, row_right_);
    if (i0 > 0)
      ExpOf<O>(
          i0, [&](int64_t j) { return prefix_[i0] - prefix_[j]; }, column_);
    if (end < columns) {
      ExpOf<O>(
          columns - end, [&](int64_t j) { return prefix_[end + j + 1] - prefix_[end]; }, column_ + end);
    }
  }

  // M[i, j] for columns j of the block, as SetRows prepared them; valid until the next call.
  HWY_INLINE const float* MaskRow(int64_t i, int64_t columns) {
    if (constant_) return powers_ + kBlock - 1 - i;
    const F32 d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), end = first_row_ + kPad;
    const auto left = hn::Set(d, row_left_[i - first_row_]), right = hn::Set(d, row_right_[i - first_row_]);
    for (int64_t j = 0; j < first_row_; j += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, column_ + j), left), d, row_ + j);
    }
    SquareArguments(i, row_ + first_row_);
    for (int64_t j = first_row_; j < end; j += lanes) {
      hn::StoreU(OperandExp<O>(d, hn::LoadU(d, row_ + j)), d, row_ + j);
    }
    for (int64_t j = end; j < columns; j += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, column_ + j), right), d, row_ + j);
    }
    return row_;
  }

 private:
  // The logarithms of row i in its own square.
  HWY_INLINE void SquareArguments(int64_t i, float* result) {
    const hn::CappedTag<double, 8> d;
    const hn::Rebind<float, decltype(d)> d32;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto row = hn::Set(d, prefix_[i]), next = hn::Set(d, prefix_[i + 1]),
               place = hn::Set(d, static_cast<double>(i));
    for (int64_t j = 0; j < kPad; j += lanes) {
      const double* from = prefix_ + first_row_ + j;
      const auto column = hn::Iota(d, static_cast<double>(first_row_ + j));
      const auto before = hn::Sub(row, hn::LoadU(d, from)), after = hn::Sub(hn::LoadU(d, from + 1), next);
      hn::StoreU(hn::DemoteTo(d32, hn::IfThenElse(hn::Lt(column, place), before, after)), d32, result + j);
    }
  }

  bool constant_ = false;
  double prefix_[kBlock + kPad];  // prefix[r] = l_0 + ... + l_{r-1}
  float powers_[2 * kBlock];      // of a constant decay: lambda^|r - (kBlock - 1)|
  int64_t first_row_ = 0;
  float row_left_[kPad], row_right_[kPad], column_[kBlock], row_[kBlock];
};

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
