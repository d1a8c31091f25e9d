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
  TileScratch(CpuContext& context, int thread, const Matmul& first, const Matmul* second = nullptr)
      : step(std::max(first.row_step(), second == nullptr ? 0 : second->row_step())) {
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

  // Of a tile that holds so many rows: those beyond are there, but nobody reads their results.
  int64_t Height(int64_t rows) const { return (rows + step - 1) / step * step; }

  // They are zeros.
  void PadInput(int64_t rows, int64_t inputs) {
    std::fill_n(input + rows * inputs, (Height(rows) - rows) * inputs, T{0});
  }

  // output = input W^T + b.
  absl::Status Run(const Matmul& matmul, int64_t rows) {
    PadInput(rows, matmul.inputs());
    return matmul.Run(Epilogue::kBias, Height(rows), input, output, scratch);
  }

  // y [rows, outputs] += from W^T + b; `from` has Height(rows) rows.
  absl::Status Add(const Matmul& matmul, const T* from, int64_t rows, float* y) {
    const int64_t height = Height(rows), outputs = matmul.outputs();
    if (rows == height) return matmul.Run(Epilogue::kBiasAdd, height, from, y, scratch);
    std::copy_n(y, rows * outputs, output);
    std::fill_n(output + rows * outputs, (height - rows) * outputs, 0.0f);
    absl::Status status = matmul.Run(Epilogue::kBiasAdd, height, from, output, scratch);
    std::copy_n(output, rows * outputs, y);
    return status;
  }

  // y [rows, body_outputs] = from W^T + b, likewise.
  template <typename Out>
  absl::Status Store(const Matmul& matmul, const T* from, int64_t rows, Out* y) {
    static_assert(std::is_same_v<Out, float> || std::is_same_v<Out, T>);
    constexpr Epilogue kEpilogue = std::is_same_v<Out, float> ? Epilogue::kBias : Epilogue::kBiasCompute;
    const int64_t height = Height(rows);
    if (rows == height) return matmul.Run(kEpilogue, height, from, y, scratch);
    Out* const all = reinterpret_cast<Out*>(output);
    absl::Status status = matmul.Run(kEpilogue, height, from, all, scratch);
    std::copy_n(all, rows * matmul.body_outputs(), y);
    return status;
  }

  const int64_t step;  // of both products
  T* input;            // [kRowTile, inputs]
  float* output;       // [kRowTile, outputs]
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

// body(first, rows, thread) -> Status for each tile; the first error, if any. Tiles begin at multiples of `step`, have
// at most kRowTile rows, and are as many as give all threads about the same to do.
template <class Body>
absl::Status ForEachRowTile(CpuContext& context, int64_t rows, int64_t step, const Body& body) {
  const int64_t threads = context.pool().threads(), steps = (rows + step - 1) / step;
  const int64_t least_tiles = (rows + kRowTile - 1) / kRowTile;
  const int64_t tiles = std::min(steps, (least_tiles + threads - 1) / threads * threads);
  return ForEachTask(context, tiles, [&](int64_t tile, int thread) {
    const int64_t first = tile * steps / tiles * step, end = std::min(rows, (tile + 1) * steps / tiles * step);
    return body(first, end - first, thread);
  });
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
