#include "kernels/cuda/mixer.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mixer_kernels.h"
#include "kernels/cuda/rows.h"

namespace lion::cuda {
namespace {

struct LogDecayKernelArgs {
  DecayKind kind;
  float* values;
  int64_t count;
  int64_t columns;
  const int64_t* offsets;
  int64_t sequences;
};

// One value to a thread.
__global__ void __launch_bounds__(kThreads) LogDecayKernel(const LogDecayKernelArgs a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + static_cast<int64_t>(threadIdx.x);
  if (i >= a.count) return;
  if (a.sequences > 0) {
    // The last sequence that begins at or before this row.
    const int64_t row = i / a.columns;
    int64_t low = 0, high = a.sequences;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (a.offsets[middle] <= row ? low : high) = middle;
    }
    if (a.offsets[low] == row) {
      a.values[i] = 0;
      return;
    }
  }
  const float z = a.kind == DecayKind::kLearned ? -a.values[i] : a.values[i];
  // log(1 + e^z)
  const float softplus = (z < 0 ? 0.0f : z) + log1pf(expf(-fabsf(z)));
  // 1 / (1 + e^z) + 1e-7 where the first is large, its logarithm is -softplus and a little.
  a.values[i] = a.kind == DecayKind::kSelectiveText
                    ? (z < 0 ? -softplus + log1pf(1e-7f * (1 + expf(z))) : logf(1 / (1 + expf(z)) + 1e-7f))
                    : -softplus;
}

// Regions of the workspace, one behind the other; without one, their bytes are counted only.
class Regions {
 public:
  explicit Regions(void* base) : base_(static_cast<char*>(base)) {}
  template <typename P>
  void Take(P*& region, int64_t bytes) {
    if (base_ != nullptr) region = reinterpret_cast<P*>(base_ + taken_);
    taken_ += (bytes + 255) / 256 * 256;
  }
  int64_t taken() const { return taken_; }

 private:
  char* base_;
  int64_t taken_ = 0;
};

MixerKernelArgs KernelArgs(const MixerArgs& args, const MixerPlan& plan) {
  MixerKernelArgs kernel;
  kernel.qkv = args.qkv;
  kernel.output = args.output;
  kernel.tokens = plan.tokens;
  kernel.heads = static_cast<int>(args.heads);
  kernel.width = static_cast<int>(args.head_width);
  kernel.map = args.feature_map;
  kernel.vectors = args.head_width % 8 == 0;
  kernel.normalize = args.normalize;
  kernel.epsilon = args.epsilon;
  kernel.chunk_tokens = plan.chunk_tokens;
  for (int o = 0; o < args.order_count; ++o) kernel.decays = kernel.decays || args.orders[o].log_decay != nullptr;
  // Without decays every order gives the same.
  kernel.order_count = kernel.decays ? args.order_count : 1;
  kernel.directions = kernel.decays ? 2 : 1;
  kernel.weight = args.scale / static_cast<float>(kernel.order_count);
  for (int o = 0; o < kernel.order_count && kernel.decays; ++o) {
    const MixerOrder& order = args.orders[o];
    kernel.orders[o] = {order.log_decay, order.token_stride, order.permutation};
  }
  return kernel;
}

// Sets the regions in `kernel`; their bytes.
int64_t PlaceRegions(void* workspace, const MixerPlan& plan, DataType type, MixerKernelArgs& kernel) {
  if (plan.chunks == 0) return 0;
  const int64_t width = PaddedWidth(kernel.width), orders = kernel.order_count;
  const int64_t states = plan.chunks * orders * kernel.directions * kernel.heads;
  Regions regions(workspace);
  regions.Take(kernel.added, states * (width + 1) * width * 4);
  regions.Take(kernel.entering, states * width * width * DataTypeSize(type));
  regions.Take(kernel.entering_z, states * width * 4);
  regions.Take(kernel.whole, plan.chunks * orders * kernel.heads * 4);
  if (orders == 2) {
    regions.Take(kernel.partial_y, orders * plan.tokens * kernel.heads * kernel.width * 4);
    regions.Take(kernel.partial_c, orders * plan.tokens * kernel.heads * 4);
  }
  return regions.taken();
}

}  // namespace

LaunchResult LogDecay(const LogDecayArgs& args, const int64_t* device_offsets, Stream stream) {
  const int64_t count = args.rows * args.columns;
  const LogDecayKernelArgs kernel{
      args.kind,    args.values,    count,
      args.columns, device_offsets, args.offsets.empty() ? 0 : static_cast<int64_t>(args.offsets.size()) - 1};
  return Launch("LogDecay", &LogDecayKernel, {(count + kThreads - 1) / kThreads, 1, 1, kThreads, 0}, stream, kernel);
}

int64_t MixerWorkspaceBytes(const MixerArgs& args, const MixerPlan& plan) {
  MixerKernelArgs kernel = KernelArgs(args, plan);
  return PlaceRegions(nullptr, plan, args.type, kernel);
}

LaunchResult Mixer(const MixerArgs& args, const MixerPlan& plan, const MixerPart* parts, void* workspace,
                   Stream stream) {
  MixerKernelArgs kernel = KernelArgs(args, plan);
  PlaceRegions(workspace, plan, args.type, kernel);
  LaunchResult result;
  const auto step = [&](auto* launch, int64_t count) {
    kernel.parts = parts;
    if (result.ok()) result = launch(kernel, args.type, count, stream);
  };
  step(&LaunchMixerShort, plan.short_tiles);
  parts += plan.short_tiles;
  step(&LaunchMixerStates, plan.chunks);
  parts += plan.chunks + plan.long_tiles;
  step(&LaunchMixerScan, plan.long_sequences);
  parts -= plan.long_tiles;
  step(&LaunchMixerLong, plan.long_tiles);
  if (kernel.order_count == 2) step(&LaunchMixerFinish, plan.long_tiles);
  return result;
}

}  // namespace lion::cuda
