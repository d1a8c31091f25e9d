#include "kernels/cuda/mixer_plan.h"

#include <algorithm>

namespace lion::cuda {
namespace {

// Cuts [first, end) into pieces of `size` and gives each to `use`.
template <class Use>
void Cut(int32_t first, int32_t end, int32_t size, const Use& use) {
  for (; first < end; first += size) use(first, std::min(size, end - first));
}

}  // namespace

void PlanMixer(std::span<const int64_t> offsets, int chunk_tokens, MixerPlan& plan) {
  plan.parts.clear();
  plan.chunk_tokens = chunk_tokens;
  plan.tokens = offsets.back();
  const auto for_each = [&](bool is_long, const auto& use) {
    const int64_t before = static_cast<int64_t>(plan.parts.size());
    int32_t chunk = 0;
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      const int32_t length = static_cast<int32_t>(offsets[s + 1] - offsets[s]);
      if ((length > kMixerWindow) != is_long) continue;
      use(offsets[s], length, chunk);
      if (is_long) chunk += (length + chunk_tokens - 1) / chunk_tokens;
    }
    return static_cast<int64_t>(plan.parts.size()) - before;
  };
  plan.short_tiles = for_each(false, [&](int64_t begin, int32_t length, int32_t) {
    Cut(0, length, kMixerTile, [&](int32_t first, int32_t count) {
      plan.parts.push_back({begin, length, first, count, -1});
    });
  });
  plan.chunks = for_each(true, [&](int64_t begin, int32_t length, int32_t chunk) {
    Cut(0, length, chunk_tokens, [&](int32_t first, int32_t count) {
      plan.parts.push_back({begin, length, first, count, chunk++});
    });
  });
  plan.long_tiles = for_each(true, [&](int64_t begin, int32_t length, int32_t chunk) {
    Cut(0, length, kMixerTile, [&](int32_t first, int32_t count) {
      plan.parts.push_back({begin, length, first, count, chunk + first / chunk_tokens});
    });
  });
  plan.long_sequences = for_each(true, [&](int64_t begin, int32_t length, int32_t chunk) {
    plan.parts.push_back({begin, length, 0, (length + chunk_tokens - 1) / chunk_tokens, chunk});
  });
}

void PlanTiles(std::span<const int64_t> offsets, std::vector<MixerPart>& tiles) {
  tiles.clear();
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const int32_t length = static_cast<int32_t>(offsets[s + 1] - offsets[s]);
    Cut(0, length, kMixerTile, [&](int32_t first, int32_t count) {
      tiles.push_back({offsets[s], length, first, count, -1});
    });
  }
}

}  // namespace lion::cuda
