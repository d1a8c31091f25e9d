// Buffers of the mixer's forms that take one sequence and head at a time: the recurrent and the attention form.
// Included once per instruction set.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/context.h"
#include "kernels/cpu/mixer_head-inl.h"
#include "kernels/cpu/small_gemm-inl.h"

#if defined(LION_KERNELS_CPU_MIXER_SCAN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_SCAN_INL_H
#undef LION_KERNELS_CPU_MIXER_SCAN_INL_H
#else
#define LION_KERNELS_CPU_MIXER_SCAN_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

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
struct ScanScratch {
  // Everything but the per-block states is of fixed size.
  static int64_t Bytes(int64_t length, int64_t width) { return Plan(length, width).bytes(); }
  ScanScratch(std::byte* memory, int64_t length, int64_t width) {
    ScratchPlan plan = Plan(length, width);
    plan.Use(memory);
    const int64_t padded = Padded(width), blocks = (length + kBlock - 1) / kBlock;
    for (float** tile : {&q, &k, &v, &y}) *tile = plan.Take<float>(kBlock * padded);
    transposed = plan.Take<float>(padded * kBlock);
    scores = plan.Take<float>(kBlock * kBlock);
    for (RunningState* running : {&forward, &backward}) {
      running->state = plan.Take<double>(width * padded);
      running->z = plan.Take<double>(padded);
    }
    right_state = plan.Take<float>(RightFloats(length, width));
    right_z = plan.Take<float>(blocks * padded);
    all_y = plan.Take<float>(length * padded);
    all_c = plan.Take<float>(length);
  }

  float *q, *k, *v, *y;            // [kBlock, Padded(d)]
  float* transposed;               // [Padded(d), kBlock]
  float* scores;                   // [kBlock, kBlock]
  RunningState forward, backward;  // of the recurrent form
  float *right_state, *right_z;    // the backward state as it enters each block
  float *all_y, *all_c;            // [L, Padded(d)], [L]: sums over two orders, in token order

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
    for (int i = 0; i < 4; ++i) plan.Add<float>(kBlock * padded);
    plan.Add<float>(padded * kBlock);
    plan.Add<float>(kBlock * kBlock);
    for (int i = 0; i < 2; ++i) {
      plan.Add<double>(width * padded);
      plan.Add<double>(padded);
    }
    plan.Add<float>(RightFloats(length, width));
    plan.Add<float>(blocks * padded);
    plan.Add<float>(length * padded);
    plan.Add<float>(length);
    return plan;
  }
};

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
