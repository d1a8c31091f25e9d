#include "tests/kernels/mixer_cases.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tests/kernels/test_kernels.h"
#include "tests/support/golden.h"

namespace lion::testing {

MixerArgs MixerArgsOf(const MixerCase& c) {
  MixerArgs args{.offsets = c.offsets,
                 .heads = c.heads,
                 .head_width = c.head_width,
                 .feature_map = c.feature_map,
                 .orders = {},
                 .order_count = c.orders,
                 .normalize = c.normalize,
                 .scale = 1 / std::sqrt(static_cast<float>(c.head_width))};
  for (int o = 0; o < c.orders; ++o) {
    if (!c.log_decay[o].empty()) args.orders[o].log_decay = c.log_decay[o].data();
    args.orders[o].token_stride = c.constant_decay ? 0 : c.heads;
    if (!c.permutation[o].empty()) args.orders[o].permutation = c.permutation[o].data();
  }
  return args;
}

MixerCase MakeMixerCase(std::mt19937& random, std::initializer_list<int64_t> lengths, int64_t head_width, Decay decay,
                        int orders, FeatureMap map, bool normalize) {
  MixerCase c;
  c.offsets = Offsets(lengths);
  c.head_width = head_width;
  c.feature_map = map;
  c.orders = orders;
  c.normalize = normalize;
  c.qkv = Normal(random, c.tokens() * 3 * c.heads * head_width);
  c.constant_decay = decay == Decay::kConstant;
  for (int o = 0; o < orders; ++o) {
    if (decay == Decay::kConstant) c.log_decay[o] = {-0.01f, -0.7f};
    if (decay == Decay::kPerToken || decay == Decay::kSaturated) {
      const float spread = decay == Decay::kSaturated ? 30 : 3;
      c.log_decay[o] = Normal(random, c.tokens() * c.heads, spread);
      for (float& value : c.log_decay[o]) value = -std::max(value, 0.0f) - std::log1p(std::exp(-std::abs(value)));
    }
    if (orders == 2) {
      for (size_t s = 0; s + 1 < c.offsets.size(); ++s) {
        std::vector<int32_t> places(c.offsets[s + 1] - c.offsets[s]);
        std::iota(places.begin(), places.end(), 0);
        std::shuffle(places.begin() + (places.empty() ? 0 : 1), places.end(), random);
        c.permutation[o].insert(c.permutation[o].end(), places.begin(), places.end());
      }
    }
  }
  return c;
}

std::vector<GoldenMixerCase> GoldenMixerCases() {
  std::vector<GoldenMixerCase> cases;
  const struct {
    const char* file;
    FeatureMap map;
    bool normalize;
    DecayKind decay;
  } kinds[] = {{"lit_vision", FeatureMap::kEluPlusOne, true, DecayKind::kLearned},
               {"decay_vision", FeatureMap::kNormalizedSilu, true, DecayKind::kLearned},
               {"selective_vision", FeatureMap::kNormalizedSilu, true, DecayKind::kSelectiveVision},
               {"selective_text", FeatureMap::kIdentity, false, DecayKind::kSelectiveText}};
  for (const auto& kind : kinds) {
    const auto golden = ReadGolden(std::string("tests/golden/mixer/") + kind.file + ".safetensors");
    for (int n = 0; golden.contains("q." + std::to_string(n)); ++n) {
      const std::string suffix = "." + std::to_string(n);
      const auto& shape = golden.at("q" + suffix).shape;
      MixerCase c;
      c.heads = shape[0];
      c.head_width = shape[2];
      c.offsets = {0, shape[1]};
      c.feature_map = kind.map;
      c.normalize = kind.normalize;
      // [H, L, d] -> [L, 3, H, d]
      c.qkv.resize(shape[1] * 3 * shape[0] * shape[2]);
      const char* parts[] = {"q", "k", "v"};
      std::vector<double> want(shape[0] * shape[1] * shape[2]);
      for (int64_t h = 0; h < shape[0]; ++h) {
        for (int64_t i = 0; i < shape[1]; ++i) {
          for (int64_t w = 0; w < shape[2]; ++w) {
            const int64_t from = (h * shape[1] + i) * shape[2] + w;
            for (int part = 0; part < 3; ++part) {
              c.qkv[((i * 3 + part) * shape[0] + h) * shape[2] + w] =
                  static_cast<float>(golden.at(parts[part] + suffix).values[from]);
            }
            want[(i * shape[0] + h) * shape[2] + w] = golden.at("y" + suffix).values[from];
          }
        }
      }
      if (kind.map != FeatureMap::kEluPlusOne) {
        const auto& gate = golden.at("gate_logit" + suffix).values;
        c.constant_decay = kind.decay == DecayKind::kLearned;
        for (int64_t i = 0; i < (c.constant_decay ? 1 : shape[1]); ++i) {
          for (int64_t h = 0; h < shape[0]; ++h) c.log_decay[0].push_back(static_cast<float>(gate[h * shape[1] + i]));
        }
      }
      cases.push_back({kind.file + suffix, std::move(c), kind.decay, std::move(want)});
    }
  }
  return cases;
}

MixerCase AloneInBatch(const MixerCase& batch, size_t sequence) {
  const int64_t row = batch.heads * batch.head_width;
  const int64_t begin = batch.offsets[sequence], end = batch.offsets[sequence + 1];
  MixerCase alone = batch;
  alone.offsets = {0, end - begin};
  alone.qkv.assign(batch.qkv.begin() + begin * 3 * row, batch.qkv.begin() + end * 3 * row);
  for (int o = 0; o < batch.orders; ++o) {
    const auto cut = [&](auto& part, const auto& all, int64_t columns) {
      if (!all.empty()) part.assign(all.begin() + begin * columns, all.begin() + end * columns);
    };
    if (!batch.constant_decay) cut(alone.log_decay[o], batch.log_decay[o], batch.heads);
    cut(alone.permutation[o], batch.permutation[o], 1);
  }
  return alone;
}

}  // namespace lion::testing
