// The two ends of a text encoder (docs/mathematics.md, section 4): token ids to rows, rows to the likeliest tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/linear.h"
#include "kernels/types.h"

namespace lion {

// One text of a batch. Every id is a row of its table.
struct TokenSequence {
  const int32_t* ids = nullptr;       // [L]
  const int32_t* type_ids = nullptr;  // [L], or nullptr: all 0
};

// x[i] = norm(words[id] + types[type id] (+ positions[place in its own sequence])).
struct EmbedTokensArgs {
  std::span<const TokenSequence> sequences;
  std::span<const int64_t> offsets;  // [n + 1]; offsets[i + 1] - offsets[i] = L of sequence i
  const float* words = nullptr;      // [vocabulary, D]
  const float* types = nullptr;      // [type vocabulary, D]
  const float* positions = nullptr;  // [positions, D], or nullptr
  int64_t width = 0;                 // D
  NormParameters norm;
  float* x = nullptr;  // [tokens, D]
};

// The likeliest entries of a vocabulary for each row: logits = x W^T + b, then the highest `count` of them by falling
// logit, equal ones by rising id. A row with a logit that is NaN or +inf gets NaN for all its logits and probabilities.
struct PredictTokensArgs {
  const float* x = nullptr;  // [rows, D]
  int64_t rows = 0;
  // W and b in parts, one below the other, so that even a single row is work for many threads. Not empty.
  std::span<const std::unique_ptr<PackedLinear>> decoder;
  int64_t count = 0;               // at most the vocabulary, which is the sum of the parts' outputs
  int32_t* ids = nullptr;          // [rows, count]
  float* logits = nullptr;         // [rows, count]
  float* probabilities = nullptr;  // [rows, count]: softmax over the whole vocabulary
};

}  // namespace lion
