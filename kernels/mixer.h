// The LION mixer: bidirectional linear attention with decay (docs/mathematics.md, section 1), and softmax attention,
// which takes its place in the baseline.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/types.h"

namespace lion {

// Log decays of one scan order, from what the model computes:
//   LION-S vision  log lambda = -softplus(z)               z = gate logit of the token
//   LION-S text    log lambda = log(sigmoid(-z) + 1e-7)
//   LION-D         log lambda = -softplus(-a)              a = one learned scalar a head (given as its own logits,
//   once)
// All are exact for saturated logits: -inf never appears, exp() of a very negative value is 0.
enum class DecayKind : uint8_t { kSelectiveVision, kSelectiveText, kLearned };

// In place, logit -> log lambda.
struct LogDecayArgs {
  DecayKind kind = DecayKind::kSelectiveVision;
  float* values = nullptr;  // [rows, columns]
  int64_t rows = 0;
  int64_t columns = 0;
  // First rows of the sequences (class tokens), whose log lambda is 0; empty: none. Sequence i begins at offsets[i].
  std::span<const int64_t> offsets;  // [n + 1]
};

// One order in which a sequence is scanned.
struct MixerOrder {
  // log lambda per token and head, indexed by the token's place in the batch, not in the scan: [tokens, H] with a row
  // stride of token_stride, or one row for all tokens when token_stride is 0. nullptr: lambda = 1 (LION-LIT).
  const float* log_decay = nullptr;
  int64_t token_stride = 0;
  // [tokens]: the i-th place of the scan of sequence s holds its token permutation[offsets[s] + i]. nullptr: as they
  // are.
  const int32_t* permutation = nullptr;
};

struct MixerArgs {
  std::span<const int64_t> offsets;  // [n + 1]: sequence i is tokens [offsets[i], offsets[i + 1]), never empty
  int64_t heads = 0;                 // H
  int64_t head_width = 0;            // d
  const void* qkv = nullptr;         // [tokens, 3, H, d]
  DataType type = DataType::kFloat32;
  FeatureMap feature_map = FeatureMap::kIdentity;
  std::array<MixerOrder, 2> orders;  // two: the outputs and the normalisers of both are averaged before dividing
  int order_count = 1;
  bool normalize = false;  // vision models: divide by the sum of the scores + epsilon
  float scale = 1;         // s = d^-1/2
  float epsilon = 1e-6f;
  MixerForm form = MixerForm::kChunk;
  void* output = nullptr;  // [tokens, H, d] of `type`; must not overlap qkv
};

// softmax(s q k^T) v per sequence and head, blockwise: O(L d) memory.
struct SoftmaxAttentionArgs {
  std::span<const int64_t> offsets;
  int64_t heads = 0;
  int64_t head_width = 0;
  const void* qkv = nullptr;  // [tokens, 3, H, d]
  DataType type = DataType::kFloat32;
  float scale = 1;
  void* output = nullptr;  // [tokens, H, d] of `type`
};

}  // namespace lion
