// From what the engine computed to what replies of any API hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace lion {

// Cuts each row of `embedding`, [rows, D], to its first `dimensions` (0: all), then divides it by its L2 norm if
// `normalize` says so, or, unset, the model. A zero row stays zero. Returns what a row then has.
int64_t FinishEmbedding(const ModelConfig& config, int64_t dimensions, std::optional<bool> normalize,
                        std::vector<float>* embedding);

// Probabilities in place, stable: nothing overflows.
void Softmax(std::span<float> logits);

// The `count` classes with the highest logits (0, or more than there are: all), highest first, then by index.
std::vector<uint32_t> HighestClasses(std::span<const float> logits, uint32_t count);

// The model's name for a class, or its index in decimal.
std::string LabelOf(const ModelConfig& config, uint32_t index);

}  // namespace lion
