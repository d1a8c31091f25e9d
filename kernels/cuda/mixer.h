// kernels/mixer.h on the GPU. Chunkwise (docs/mathematics.md, section 1): what each chunk adds to the states of both
// directions, a scan over chunks, outputs; sequences of at most kMixerWindow tokens in one kernel by the attention
// form.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch_result.h"
#include "kernels/cuda/mixer_plan.h"
#include "kernels/mixer.h"

namespace lion::cuda {

// The widest head; any width up to it will do, multiples of 8 are fastest.
inline constexpr int64_t kMaxHeadWidth = 128;

// In place, as LogDecayArgs says; `offsets` there is host memory and only its size is used, device_offsets [n + 1] is
// the same on the device.
LaunchResult LogDecay(const LogDecayArgs& args, const int64_t* device_offsets, Stream stream);

// What Mixer needs for this batch, 0 where all sequences are short: for each chunk, order, direction (one without
// decay) and head a state in float32 and one in the activations' type; with two orders also float32 outputs of both.
int64_t MixerWorkspaceBytes(const MixerArgs& args, const MixerPlan& plan);

// `args`: pointers are device memory (qkv and output aligned to 16 bytes), but `offsets` is not looked at: `plan` has
// been made from it; `form` neither: all are one. parts: plan.parts in device memory. workspace: MixerWorkspaceBytes
// bytes, aligned to 16, free again when the stream has run the kernels.
LaunchResult Mixer(const MixerArgs& args, const MixerPlan& plan, const MixerPart* parts, void* workspace,
                   Stream stream);

// `args` as for Mixer. tiles [tile_count]: what PlanTiles gives, in device memory.
LaunchResult SoftmaxAttention(const SoftmaxAttentionArgs& args, const MixerPart* tiles, int64_t tile_count,
                              Stream stream);

}  // namespace lion::cuda
