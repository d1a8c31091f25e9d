#include "kernels/vision.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/internal.h"

namespace lion::reference {
namespace {

double Pixel(const PatchEmbedArgs& args, const PatchImage& image, int64_t channel, int64_t row, int64_t column) {
  const int64_t planar = (channel * image.height + row) * image.width + column;
  if (image.layout == PixelLayout::kPlanarFloat32) return static_cast<const float*>(image.pixels)[planar];
  const int64_t index = image.layout == PixelLayout::kPlanarUint8 ? planar : (row * image.width + column) * 3 + channel;
  // float32 in this order: the training recipe's own arithmetic.
  const float value = static_cast<float>(static_cast<const uint8_t*>(image.pixels)[index]) / 255.0f;
  return (value - args.mean[channel]) / args.std[channel];
}

// The cubic convolution kernel with a = -0.75 at distance x.
double Cubic(double x) {
  const double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Position embedding `n` of the patch (row, column) of an image of rows x columns patches.
double Position(const PatchEmbedArgs& args, const PatchImage& image, int64_t row, int64_t column, int64_t n,
                int64_t width) {
  const double y = (row + 0.5) * args.grid / image.rows - 0.5;
  const double x = (column + 0.5) * args.grid / image.columns - 0.5;
  const int64_t top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  double sum = 0;
  for (int64_t i = top - 1; i <= top + 2; ++i) {
    for (int64_t j = left - 1; j <= left + 2; ++j) {
      const int64_t cell =
          std::clamp<int64_t>(i, 0, args.grid - 1) * args.grid + std::clamp<int64_t>(j, 0, args.grid - 1);
      sum += Cubic(y - i) * Cubic(x - j) * args.positions[(1 + cell) * width + n];
    }
  }
  return sum;
}

}  // namespace

absl::Status PatchEmbed(KernelContext&, const PatchEmbedArgs& args) {
  const auto& projection = static_cast<const ReferenceLinear&>(*args.projection);
  const int64_t width = projection.outputs(), size = args.patch_size;
  for (size_t s = 0; s < args.images.size(); ++s) {
    const PatchImage& image = args.images[s];
    float* token = args.tokens + args.offsets[s] * width;
    for (int64_t n = 0; n < width; ++n) {
      token[n] = args.cls_token[n] + (args.positions != nullptr ? args.positions[n] : 0.0f);
    }
    for (int64_t patch = 0; patch < image.rows * image.columns; ++patch) {
      const int64_t row = patch / image.columns, column = patch % image.columns;
      std::vector<double> pixels;
      for (int64_t channel = 0; channel < 3; ++channel) {
        for (int64_t i = 0; i < size; ++i) {
          for (int64_t j = 0; j < size; ++j) {
            pixels.push_back(Pixel(args, image, channel, row * size + i, column * size + j));
          }
        }
      }
      const std::vector<double> output = Product(pixels, projection);
      for (int64_t n = 0; n < width; ++n) {
        const double position = args.positions == nullptr ? 0 : Position(args, image, row, column, n, width);
        token[(1 + patch) * width + n] = static_cast<float>(output[n] + position);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Pool(KernelContext&, const PoolArgs& args) {
  for (size_t s = 0; s + 1 < args.offsets.size(); ++s) {
    const int64_t begin = args.offsets[s], end = args.offsets[s + 1];
    const int64_t first = args.kind == PoolKind::kLast ? end - 1 : begin;
    const int64_t last = args.kind == PoolKind::kFirst ? begin + 1 : end;
    std::vector<double> pooled(args.width, args.kind == PoolKind::kMax ? -HUGE_VAL : 0.0);
    for (int64_t token = first; token < last; ++token) {
      std::vector<double> row(args.x + token * args.width, args.x + (token + 1) * args.width);
      NormRow(row, args.norm);
      for (int64_t n = 0; n < args.width; ++n) {
        // A NaN must come through the maximum.
        if (args.kind != PoolKind::kMax)
          pooled[n] += row[n] / static_cast<double>(last - first);
        else if (!std::isnan(pooled[n]) && !(row[n] <= pooled[n]))
          pooled[n] = row[n];
      }
    }
    for (int64_t n = 0; n < args.width; ++n) args.output[s * args.width + n] = static_cast<float>(pooled[n]);
  }
  return absl::OkStatus();
}

}  // namespace lion::reference
