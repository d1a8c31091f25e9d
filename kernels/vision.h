// The two ends of a vision encoder: pixels to tokens, tokens to one vector.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/linear.h"
#include "kernels/types.h"

namespace lion {

// One image of a batch. Patches are cut row by row from the top left; what lies beyond the last whole one is ignored.
struct PatchImage {
  const void* pixels = nullptr;
  PixelLayout layout = PixelLayout::kInterleavedUint8;
  int64_t height = 0;  // pixels
  int64_t width = 0;
  int64_t rows = 0;  // patches; rows * P <= height
  int64_t columns = 0;
};

// Section 3, steps 1 and 2: tokens[0] = cls_token (+ position 0), tokens[1 + r * columns + c] = proj(patch(r, c)) +
// bias
// (+ position). The position grid is resized to rows x columns: bicubic, a = -0.75, half-pixel centres, clamped edges.
struct PatchEmbedArgs {
  std::span<const PatchImage> images;
  std::span<const int64_t> offsets;       // [n + 1]; offsets[i + 1] - offsets[i] = 1 + rows * columns of image i
  int64_t patch_size = 0;                 // P
  std::array<float, 3> mean = {0, 0, 0};  // of x / 255; uint8 layouts only
  std::array<float, 3> std = {1, 1, 1};
  const PackedLinear* projection = nullptr;  // [D, 3 P P]: channel, row, column
  const float* cls_token = nullptr;          // [D]
  const float* positions = nullptr;          // [1 + grid * grid, D], or nullptr
  int64_t grid = 0;
  float* tokens = nullptr;  // [tokens, D]
};

enum class PoolKind : uint8_t { kMean, kFirst, kMax, kLast };

// output[i] = pool over sequence i of norm(x). Means are summed in float64.
struct PoolArgs {
  const float* x = nullptr;  // [tokens, D]
  std::span<const int64_t> offsets;
  int64_t width = 0;  // D
  NormParameters norm;
  PoolKind kind = PoolKind::kMean;
  float* output = nullptr;  // [n, D]
};

}  // namespace lion
