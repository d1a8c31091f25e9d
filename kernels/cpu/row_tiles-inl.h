// Row-wise layers as loops over tiles of kRowTile rows; included once per instruction set.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <type_traits>

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

  // Rows beyond the tile's own are zeros: their results are thrown away.
  void PadInput(int64_t rows, int64_t inputs) { std::fill_n(input + rows * inputs, (kRowTile - rows) * inputs, T{0}); }

  // output = input W^T + b.
  absl::Status Run(const Matmul& matmul, int64_t rows) {
    PadInput(rows, matmul.inputs());
    return matmul.Run(Epilogue::kBias, input, output, scratch);
  }

  // y [rows, outputs] += input W^T + b for rows of `from`, which has kRowTile of them.
  absl::Status Add(const Matmul& matmul, const T* from, int64_t rows, float* y) {
    if (rows == kRowTile) return matmul.Run(Epilogue::kBiasAdd, from, y, scratch);
    const int64_t outputs = matmul.outputs();
    std::copy_n(y, rows * outputs, output);
    std::fill_n(output + rows * outputs, (kRowTile - rows) * outputs, 0.0f);
    absl::Status status = matmul.Run(Epilogue::kBiasAdd, from, output, scratch);
    std::copy_n(output, rows * outputs, y);
    return status;
  }

  // y [rows, body_outputs] = from W^T + b.
  template <typename Out>
  absl::Status Store(const Matmul& matmul, const T* from, int64_t rows, Out* y) {
    static_assert(std::is_same_v<Out, float> || std::is_same_v<Out, T>);
    constexpr Epilogue kEpilogue = std::is_same_v<Out, float> ? Epilogue::kBias : Epilogue::kBiasCompute;
    if (rows == kRowTile) return matmul.Run(kEpilogue, from, y, scratch);
    Out* const all = reinterpret_cast<Out*>(output);
    absl::Status status = matmul.Run(kEpilogue, from, all, scratch);
    std::copy_n(all, rows * matmul.body_outputs(), y);
    return status;
  }

  T* input;       // [kRowTile, inputs]
  float* output;  // [kRowTile, outputs]
  std::byte* scratch;
};

// body(task, thread) -> Status for each task; the first error, if any.
template <class Body>
absl::Status ForEachTask(CpuContext& context, int64_t tasks, const Body& body) {
  std::mutex mutex;
  absl::Status failure;
  context.pool().ParallelFor(tasks, [&](int64_t task, int thread) {
    absl::Status status = body(task, thread);
    if (!status.ok()) {
      std::lock_guard<std::mutex> lock(mutex);
      failure.Update(status);
    }
  });
  return failure;
}

// body(first, rows, thread) -> Status for each tile; the first error, if any.
template <class Body>
absl::Status ForEachRowTile(CpuContext& context, int64_t rows, const Body& body) {
  return ForEachTask(context, (rows + kRowTile - 1) / kRowTile, [&](int64_t tile, int thread) {
    const int64_t first = tile * kRowTile;
    return body(first, std::min(kRowTile, rows - first), thread);
  });
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
