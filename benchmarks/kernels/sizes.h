// The named models (docs/mathematics.md, section 3), and batches of their images.
#pragma once

#include <cstdint>

namespace lion {

struct ModelSize {
  const char* name;
  int64_t width;  // D
  int64_t heads;  // H
};
inline constexpr ModelSize kModelSizes[] = {{"tiny", 192, 3}, {"small", 384, 6}, {"base", 768, 12}};

// Tokens: a class token and 14 x 14 patches of 224 x 224 pixels.
inline constexpr int64_t kGrid = 14;
inline constexpr int64_t kOneImage = 1 + kGrid * kGrid;
inline constexpr int64_t kEightImages = 8 * kOneImage;
// 64 x 64 patches: 1024 x 1024 pixels.
inline constexpr int64_t kLargeGrid = 64;

}  // namespace lion
