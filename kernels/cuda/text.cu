#include "kernels/cuda/text.h"

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_device.h"
#include "kernels/cuda/rows.h"

namespace lion::cuda {
namespace {

struct EmbedKernelArgs {
  EmbedTokensKernelArgs args;
  NormKernelArgs norm;
  bool vectors;
};

// A token to a warp.
template <typename T, int kGroups>
__global__ void __launch_bounds__(kThreads) EmbedTokensKernel(const EmbedKernelArgs a) {
  const int columns = static_cast<int>(a.args.width);
  const int64_t token = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + static_cast<int>(threadIdx.x) / kWarp;
  if (token >= a.args.tokens) return;
  WarpRow<kGroups> row;
  row.Load(a.args.words + __ldg(a.args.ids + token) * a.args.width, columns, a.vectors);
  const int64_t type = a.args.type_ids == nullptr ? 0 : __ldg(a.args.type_ids + token);
  row.Add(a.args.types + type * a.args.width, columns, a.vectors);
  if (a.args.positions != nullptr) {
    const int sequence = FindSequence(a.args.offsets, static_cast<int>(a.args.sequences), token);
    const int64_t place = token - __ldg(a.args.offsets + sequence);
    row.Add(a.args.positions + place * a.args.width, columns, a.vectors);
  }
  if (a.norm.gamma != nullptr) row.Normalize(a.norm, columns, a.vectors);
  row.Store(a.args.x + token * a.args.width, columns, a.vectors);
  if (a.args.copy != nullptr) row.Store(static_cast<T*>(a.args.copy) + token * a.args.width, columns, a.vectors);
}

}  // namespace

LaunchResult EmbedTokens(const EmbedTokensKernelArgs& args, Stream stream) {
  const EmbedKernelArgs kernel{args, {args.norm.gamma, args.norm.beta, args.norm.epsilon}, args.width % 4 == 0};
  constexpr int kRowsOfBlock = kThreads / kWarp;
  return Dispatch(args.type, [&]<typename T>() {
    return DispatchColumns(args.width, [&]<int kGroups>() {
      return Launch("EmbedTokens", &EmbedTokensKernel<T, kGroups>,
                    {(args.tokens + kRowsOfBlock - 1) / kRowsOfBlock, 1, 1, kThreads, 0}, stream, kernel);
    });
  });
}

}  // namespace lion::cuda
