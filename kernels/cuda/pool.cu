// Pool of vision.h: parts of each sequence, then their sums or maxima in order, so that a sequence does not feel its
// batch.
#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_device.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/vision.h"

namespace lion::cuda {
namespace {

constexpr int kWarps = kThreads / kWarp;
constexpr int kRowsOfWarp = 64;  // of a part, which a warp takes
constexpr int kRowsOfBlock = kRowsOfWarp * kWarps;

struct PoolKernelArgs {
  const float* x;
  const int64_t* offsets;
  int columns;
  bool vectors;
  NormKernelArgs norm;
  PoolKind kind;
  double* parts;  // [part, columns]
  float* output;
};

// A sequence's tokens that are pooled, and the number of its first part: no two sequences' parts meet.
struct PoolRange {
  int64_t begin, end, part;
};
__device__ __forceinline__ PoolRange RangeOf(const PoolKernelArgs& a, int64_t sequence) {
  const int64_t begin = a.offsets[sequence], end = a.offsets[sequence + 1];
  return {a.kind == PoolKind::kLast ? end - 1 : begin, a.kind == PoolKind::kFirst ? begin + 1 : end,
          begin / kRowsOfWarp + sequence};
}

// NaN comes through.
__device__ __forceinline__ double Larger(double a, double b) { return a >= b || a != a ? a : b; }

template <int kGroups>
__global__ void __launch_bounds__(kThreads) PoolPartsKernel(const PoolKernelArgs a) {
  const PoolRange range = RangeOf(a, blockIdx.y);
  const int64_t part = static_cast<int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  const int64_t first = range.begin + part * kRowsOfWarp;
  if (first >= range.end) return;
  const int64_t last = first + kRowsOfWarp < range.end ? first + kRowsOfWarp : range.end;
  double pooled[kGroups][4];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
#pragma unroll
    for (double& value : pooled[g]) value = a.kind == PoolKind::kMax ? -HUGE_VAL : 0.0;
  }
  // Not unrolled: the sums fill the registers.
#pragma unroll 1
  for (int64_t token = first; token < last; ++token) {
    WarpRow<kGroups> row;
    row.Load(a.x + token * a.columns, a.columns, a.vectors);
    if (a.norm.gamma != nullptr) row.Normalize(a.norm, a.columns, a.vectors);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const double value = row.value[g][i];
        pooled[g][i] = a.kind == PoolKind::kMax ? Larger(pooled[g][i], value) : pooled[g][i] + value;
      }
    }
  }
  double* const out = a.parts + (range.part + part) * a.columns;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = WarpRow<kGroups>::Column(g) + i;
      if (column < a.columns) out[column] = pooled[g][i];
    }
  }
}

__global__ void __launch_bounds__(kThreads) PoolFinishKernel(const PoolKernelArgs a) {
  const int column = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (column >= a.columns) return;
  const int64_t sequence = blockIdx.y;
  const PoolRange range = RangeOf(a, sequence);
  const int64_t parts = (range.end - range.begin + kRowsOfWarp - 1) / kRowsOfWarp;
  const double* in = a.parts + range.part * a.columns + column;
  double pooled = *in;
  for (int64_t part = 1; part < parts; ++part) {
    in += a.columns;
    pooled = a.kind == PoolKind::kMax ? Larger(pooled, *in) : pooled + *in;
  }
  if (a.kind == PoolKind::kMean) pooled /= static_cast<double>(range.end - range.begin);
  a.output[sequence * a.columns + column] = static_cast<float>(pooled);
}

}  // namespace

int64_t PoolWorkspaceBytes(const PoolArgs& args) {
  const int64_t sequences = static_cast<int64_t>(args.offsets.size()) - 1;
  return (args.offsets.back() / kRowsOfWarp + sequences) * args.width * static_cast<int64_t>(sizeof(double));
}

LaunchResult Pool(const PoolArgs& args, const int64_t* device_offsets, void* workspace, Stream stream) {
  const PoolKernelArgs kernel{args.x,
                              device_offsets,
                              static_cast<int>(args.width),
                              args.width % 4 == 0,
                              {args.norm.gamma, args.norm.beta, args.norm.epsilon},
                              args.kind,
                              static_cast<double*>(workspace),
                              args.output};
  const int64_t sequences = static_cast<int64_t>(args.offsets.size()) - 1;
  int64_t longest = 1;
  if (args.kind == PoolKind::kMean || args.kind == PoolKind::kMax) {
    for (int64_t s = 0; s < sequences; ++s) longest = std::max(longest, args.offsets[s + 1] - args.offsets[s]);
  }
  const LaunchResult result = DispatchColumns(args.width, [&]<int kGroups>() {
    return Launch("PoolParts", &PoolPartsKernel<kGroups>,
                  {(longest + kRowsOfBlock - 1) / kRowsOfBlock, sequences, 1, kThreads, 0}, stream, kernel);
  });
  if (!result.ok()) return result;
  return Launch("PoolFinish", &PoolFinishKernel, {(args.width + kThreads - 1) / kThreads, sequences, 1, kThreads, 0},
                stream, kernel);
}

}  // namespace lion::cuda
