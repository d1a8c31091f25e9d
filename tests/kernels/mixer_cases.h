// Ragged batches for the mixer, of every kind that it has to do with.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "kernels/mixer.h"

namespace lion::testing {

// A ragged batch, and the mixer's settings but for form and type.
struct MixerCase {
  std::vector<int64_t> offsets;
  int64_t heads = 2;
  int64_t head_width = 16;
  std::vector<float> qkv;           // [tokens, 3, H, d]
  std::vector<float> log_decay[2];  // [tokens, H], [H] with a constant decay, or empty
  bool constant_decay = false;
  std::vector<int32_t> permutation[2];  // or empty
  FeatureMap feature_map = FeatureMap::kNormalizedSilu;
  int orders = 1;
  bool normalize = true;

  int64_t tokens() const { return offsets.back(); }
};

// The arguments for this case but for qkv, type, form and output; they point into it.
MixerArgs MixerArgsOf(const MixerCase& c);

enum class Decay { kNone, kConstant, kPerToken, kSaturated };

MixerCase MakeMixerCase(std::mt19937& random, std::initializer_list<int64_t> lengths, int64_t head_width, Decay decay,
                        int orders, FeatureMap map, bool normalize);

// tests/golden/mixer: log_decay[0] holds the gate logits, to be turned by LogDecay of `decay`, or nothing.
struct GoldenMixerCase {
  std::string name;
  MixerCase mixer;
  DecayKind decay;
  std::vector<double> want;  // [L, H, d]
};
std::vector<GoldenMixerCase> GoldenMixerCases();

// One sequence of the batch as a batch of its own.
MixerCase AloneInBatch(const MixerCase& batch, size_t sequence);

}  // namespace lion::testing
