// kernels/text.h's embedding on the GPU.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch_result.h"
#include "kernels/text.h"

namespace lion::cuda {

// As EmbedTokensArgs, its sequences one behind the other in device memory.
struct EmbedTokensKernelArgs {
  const int32_t* ids = nullptr;       // [tokens]: rows of `words`
  const int32_t* type_ids = nullptr;  // [tokens], or nullptr: all 0
  const int64_t* offsets = nullptr;   // [n + 1]
  int64_t sequences = 0;              // n
  int64_t tokens = 0;
  const float* words = nullptr;      // [vocabulary, D]
  const float* types = nullptr;      // [type vocabulary, D]
  const float* positions = nullptr;  // [positions, D], or nullptr
  int64_t width = 0;                 // D, at most kMaxNormColumns (linear.h)
  NormParameters norm;
  DataType type = DataType::kFloat32;
  float* x = nullptr;    // [tokens, D]
  void* copy = nullptr;  // [tokens, D]: x in `type`, or nullptr
};
LaunchResult EmbedTokens(const EmbedTokensKernelArgs& args, Stream stream);

}  // namespace lion::cuda
