// Row-wise layers as loops over tiles of kRowTile rows; included once per instruction set.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "absl/status/status.h"
#include "hwy/highway.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/matmul.h"

#if defined(LION_KERNELS_CPU_ROW_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_ROW_TILES_INL_H
#undef LION_KERNELS_CPU_ROW_TILES_INL_H
#else
#define LION_KERNELS_CPU_ROW_TILES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// The buffers of one tile on its way through one or two products. T: float, or uint16_t for bfloat16.
template <typename T>
struct TileScratch {
  TileScratch(CpuContext& context, int thread, const Matmul& first, const Matmul* second = nullptr) {
    const int64_t inputs = std::max(first.inputs(), second == nullptr ? 0 : second->inputs());
    const int64_t outputs = std::max(first.outputs(), second == nullptr ? 0 : second->outputs());
    const int64_t work = std::max(first.scratch_bytes(), second == nullptr ? 0 : second->scratch_bytes());
    ScratchPlan plan;
    plan.Add<T>(kRowTile * inputs);
    plan.Add<float>(kRowTile * outputs);
    plan.Add<std::byte>(work);
    plan.Use(context.Reserve(thread, plan.bytes()));
    input = plan.Take<T>(kRowTile * inputs);
    output = plan.Take<float>(kRowTile * outputs);
    scratch = plan.Take<std::byte>(work);
  }

  // output = input W^T; rows beyond the tile's own are zeros, for their results are thrown away.
  absl::Status Run(const Matmul& matmul, int64_t rows) {
    std::fill_n(input + rows * matmul.inputs(), (kRowTile - rows) * matmul.inputs(), T{0});
    return matmul.Run(input, output, scratch);
  }

  T* input;       // [kRowTile, inputs]
  float* output;  // [kRowTile, outputs]
  std::byte* scratch;
};

// body(first, rows, thread) -> Status for each tile; the first error, if any.
template <class Body>
absl::Status ForEachRowTile(CpuContext& context, int64_t rows, const Body& body) {
  std::mutex mutex;
  absl::Status failure;
  context.pool().ParallelFor((rows + kRowTile - 1) / kRowTile, [&](int64_t tile, int thread) {
    const int64_t first = tile * kRowTile;
    absl::Status status = body(first, std::min(kRowTile, rows - first), thread);
    if (!status.ok()) {
      std::lock_guard<std::mutex> lock(mutex);
      failure.Update(status);
    }
  });
  return failure;
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
