// The kernels of each instruction set, as the vector sources export them.
#pragma once

#include "kernels/operations.h"

namespace lion::cpu {

using LinearFn = absl::Status (*)(KernelContext&, const LinearArgs&);
using MlpFn = absl::Status (*)(KernelContext&, const MlpArgs&);
using LayerNormFn = absl::Status (*)(KernelContext&, const LayerNormArgs&);
using LogDecayFn = absl::Status (*)(KernelContext&, const LogDecayArgs&);
using MixerFn = absl::Status (*)(KernelContext&, const MixerArgs&);
using SoftmaxAttentionFn = absl::Status (*)(KernelContext&, const SoftmaxAttentionArgs&);
using PatchEmbedFn = absl::Status (*)(KernelContext&, const PatchEmbedArgs&);
using PoolFn = absl::Status (*)(KernelContext&, const PoolArgs&);
using EmbedTokensFn = absl::Status (*)(KernelContext&, const EmbedTokensArgs&);
using PredictTokensFn = absl::Status (*)(KernelContext&, const PredictTokensArgs&);

// Set the functions of one source file in the table: those of Highway's chosen target, or the scalar ones.
namespace vector {
void ExportLinear(Operations& table);
void ExportMixer(Operations& table);
void ExportVision(Operations& table);
void ExportText(Operations& table);
}  // namespace vector
namespace scalar {
void ExportLinear(Operations& table);
void ExportMixer(Operations& table);
void ExportVision(Operations& table);
void ExportText(Operations& table);
}  // namespace scalar

}  // namespace lion::cpu

// The namespace of the exports of the translation unit at hand.
#ifdef HWY_COMPILE_ONLY_SCALAR
#define LION_CPU_EXPORTS scalar
#else
#define LION_CPU_EXPORTS vector
#endif
