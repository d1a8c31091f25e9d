// The steps of the mixer: what mixer.cu launches.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch_result.h"
#include "kernels/cuda/mixer_plan.h"
#include "kernels/types.h"

namespace lion::cuda {

struct MixerKernelArgs {
  const void* qkv = nullptr;
  void* output = nullptr;
  int64_t tokens = 0;
  int heads = 0;
  int width = 0;  // d; kernels have it rounded up to kWidth
  FeatureMap map = FeatureMap::kIdentity;
  bool vectors = false;  // rows of qkv are whole vectors of 16 bytes
  bool normalize = false;
  float weight = 1;  // scale / orders
  float epsilon = 0;

  struct Order {
    const float* log_decay = nullptr;
    int64_t stride = 0;
    const int32_t* permutation = nullptr;
  };
  Order orders[2];
  int order_count = 1;
  bool decays = false;  // false: one order, one direction, whose state is the whole sequence's
  int directions = 1;   // 2 with decays

  const MixerPart* parts = nullptr;  // what this launch works on
  int chunk_tokens = 0;

  // Workspace. A state's number is ((chunk orders + order) directions + direction) H + head.
  float* added = nullptr;       // [states, kWidth + 1, kWidth]: what a chunk adds to S, and to z in the last row
  float* whole = nullptr;       // [chunk, order, head]: the product of a chunk's decays
  void* entering = nullptr;     // [states, kWidth, kWidth], of the activations' type: S as it enters a chunk
  float* entering_z = nullptr;  // [states, kWidth]
  float* partial_y = nullptr;   // [order, tokens, H, d] and
  float* partial_c = nullptr;   // [order, tokens, H]: with two orders, not yet added up
};

// kWidth: 64, the width of all models that we know of, or 128.
constexpr int PaddedWidth(int64_t width) { return width <= 64 ? 64 : 128; }

// One launch each; nothing for a count of 0.
LaunchResult LaunchMixerShort(const MixerKernelArgs& args, DataType type, int64_t tiles, Stream stream);
LaunchResult LaunchMixerStates(const MixerKernelArgs& args, DataType type, int64_t chunks, Stream stream);
LaunchResult LaunchMixerScan(const MixerKernelArgs& args, DataType type, int64_t sequences, Stream stream);
LaunchResult LaunchMixerLong(const MixerKernelArgs& args, DataType type, int64_t tiles, Stream stream);
LaunchResult LaunchMixerFinish(const MixerKernelArgs& args, DataType type, int64_t tiles, Stream stream);

}  // namespace lion::cuda
