#include "kernels/cuda/linear.h"

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_device.h"
#include "kernels/cuda/rows.h"

namespace lion::cuda {
namespace {

constexpr int kRowsOfBlock = kThreads / kWarp;

struct AddNormKernelArgs {
  const float* x;
  const void* added;
  const float* bias;
  int64_t rows;
  int columns;
  bool vectors;
  float* sum;
  NormKernelArgs norm;
  float* normed_float;
  void* normed;
};

// A row to a warp.
template <typename T, int kGroups>
__global__ void __launch_bounds__(kThreads) AddNormKernel(const AddNormKernelArgs a) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + static_cast<int>(threadIdx.x) / kWarp;
  if (row >= a.rows) return;
  const int64_t first = row * a.columns;
  WarpRow<kGroups> values;
  values.Load(a.x + first, a.columns, a.vectors);
  if (a.added != nullptr) values.Add(static_cast<const T*>(a.added) + first, a.columns, a.vectors);
  if (a.bias != nullptr) values.Add(a.bias, a.columns, a.vectors);
  if (a.sum != nullptr) values.Store(a.sum + first, a.columns, a.vectors);
  if (a.norm.gamma != nullptr) values.Normalize(a.norm, a.columns, a.vectors);
  if (a.normed_float != nullptr) values.Store(a.normed_float + first, a.columns, a.vectors);
  if (a.normed != nullptr) values.Store(static_cast<T*>(a.normed) + first, a.columns, a.vectors);
}

struct GeluKernelArgs {
  const void* input;
  const float* bias;
  int64_t groups;  // of eight elements of a row
  int columns, groups_of_row;
  bool vectors;
  void* output;
};

// Eight elements to a thread.
template <typename T>
__global__ void __launch_bounds__(kThreads) GeluKernel(const GeluKernelArgs a) {
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (group >= a.groups) return;
  const int column = static_cast<int>(group % a.groups_of_row) * 8;
  const int64_t row = group / a.groups_of_row * a.columns;
  float x[8], bias[8] = {};
  LoadEight(static_cast<const T*>(a.input) + row, column, a.columns, a.vectors, x);
  if (a.bias != nullptr) LoadEight(a.bias, column, a.columns, a.vectors, bias);
  T* const out = static_cast<T*>(a.output) + row;
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
#pragma unroll
    for (int n = i; n < i + 2; ++n) {
      x[n] += bias[n];
      x[n] *= 0.5f * (1 + erff(x[n] * 0.70710678f));
    }
    StorePair(out, column + i, a.columns, x[i], x[i + 1]);
  }
}

struct NormalizeRowsKernelArgs {
  float* x;
  int64_t rows;
  int64_t columns;
};

__global__ void __launch_bounds__(kThreads) NormalizeRowsKernel(const NormalizeRowsKernelArgs a) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + static_cast<int>(threadIdx.x) / kWarp;
  if (row >= a.rows) return;
  float* const x = a.x + row * a.columns;
  // float64, so that no finite row overflows it.
  double squares = 0;
  for (int64_t i = static_cast<int>(threadIdx.x) % kWarp; i < a.columns; i += kWarp) {
    squares += static_cast<double>(x[i]) * x[i];
  }
  squares = WarpSum(squares);
  if (squares == 0) return;
  const double scale = 1 / sqrt(squares);
  for (int64_t i = static_cast<int>(threadIdx.x) % kWarp; i < a.columns; i += kWarp) {
    x[i] = static_cast<float>(x[i] * scale);
  }
}

int64_t RowBlocks(int64_t rows) { return (rows + kRowsOfBlock - 1) / kRowsOfBlock; }

}  // namespace

LaunchResult AddNorm(const AddNormArgs& args, Stream stream) {
  const AddNormKernelArgs kernel{args.x,
                                 args.added,
                                 args.bias,
                                 args.rows,
                                 static_cast<int>(args.columns),
                                 args.columns % 4 == 0,
                                 args.sum,
                                 {args.norm.gamma, args.norm.beta, args.norm.epsilon},
                                 args.normed_float,
                                 args.normed};
  return Dispatch(args.type, [&]<typename T>() {
    return DispatchColumns(args.columns, [&]<int kGroups>() {
      return Launch("AddNorm", &AddNormKernel<T, kGroups>, {RowBlocks(args.rows), 1, 1, kThreads, 0}, stream, kernel);
    });
  });
}

LaunchResult Gelu(const GeluArgs& args, Stream stream) {
  const int64_t groups_of_row = (args.columns + 7) / 8, groups = args.rows * groups_of_row;
  const GeluKernelArgs kernel{args.input,
                              args.bias,
                              groups,
                              static_cast<int>(args.columns),
                              static_cast<int>(groups_of_row),
                              args.columns % 8 == 0,
                              args.output};
  return Dispatch(args.type, [&]<typename T>() {
    return Launch("Gelu", &GeluKernel<T>, {(groups + kThreads - 1) / kThreads, 1, 1, kThreads, 0}, stream, kernel);
  });
}

LaunchResult NormalizeRows(float* x, int64_t rows, int64_t columns, Stream stream) {
  return Launch("NormalizeRows", &NormalizeRowsKernel, {RowBlocks(rows), 1, 1, kThreads, 0}, stream,
                NormalizeRowsKernelArgs{x, rows, columns});
}

}  // namespace lion::cuda
