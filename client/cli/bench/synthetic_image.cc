#include "client/cli/bench/synthetic_image.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "client/cli/bench/random.h"

namespace lion::bench {
namespace {

// Random values on a grid, and straight lines between them.
struct Octave {
  int64_t cells;    // of the grid, each way
  float amplitude;  // of 255
};
constexpr Octave kOctaves[] = {{6, 80}, {24, 30}};
constexpr int kGrain = 8;  // the finest noise: up to so much more or less

void AddOctave(const Octave& octave, int64_t width, int64_t height, Random& random, std::vector<float>& plane) {
  const int64_t points = octave.cells + 1;
  std::vector<float> grid(static_cast<size_t>(points * points));
  for (float& value : grid) value = octave.amplitude * static_cast<float>(2 * Uniform(random) - 1);
  std::vector<float> line(static_cast<size_t>(points));
  for (int64_t y = 0; y < height; ++y) {
    const float at_y = static_cast<float>(y * octave.cells) / static_cast<float>(height);
    const auto cell_y = static_cast<int64_t>(at_y);
    const float part_y = at_y - static_cast<float>(cell_y);
    const float* const above = grid.data() + cell_y * points;
    for (int64_t i = 0; i < points; ++i) line[i] = above[i] + part_y * (above[points + i] - above[i]);
    float* const row = plane.data() + y * width;
    const float step = static_cast<float>(octave.cells) / static_cast<float>(width);
    for (int64_t x = 0; x < width; ++x) {
      const float at_x = static_cast<float>(x) * step;
      const int64_t cell_x = std::min(static_cast<int64_t>(at_x), octave.cells - 1);
      row[x] += line[cell_x] + (at_x - static_cast<float>(cell_x)) * (line[cell_x + 1] - line[cell_x]);
    }
  }
}

}  // namespace

Pixels SyntheticImage(int64_t width, int64_t height, uint64_t seed) {
  Random random(seed);
  Pixels image{width, height, {}};
  const auto plane_bytes = static_cast<size_t>(width * height);
  image.planes.resize(3 * plane_bytes);
  std::vector<float> plane(plane_bytes);
  for (size_t channel = 0; channel < 3; ++channel) {
    std::fill(plane.begin(), plane.end(), 128.0f);
    for (const Octave& octave : kOctaves) AddOctave(octave, width, height, random, plane);
    uint64_t bits = 0;
    for (size_t i = 0; i < plane_bytes; ++i, bits >>= 8) {
      if (i % 8 == 0) bits = random();
      const auto grain = static_cast<int>((bits & 0xFF) * (2 * kGrain + 1) >> 8) - kGrain;
      const float value = plane[i] + static_cast<float>(grain);
      image.planes[channel * plane_bytes + i] =
          static_cast<char>(static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)));
    }
  }
  return image;
}

}  // namespace lion::bench
