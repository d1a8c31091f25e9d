// A vision model of any size with random weights, in memory.
#pragma once

#include <cstdint>

#include "model_loader/model_loader.h"

namespace lion {

struct ModelShape {
  int64_t width = 192;  // D
  int64_t heads = 3;
  int64_t depth = 12;
  Variant variant = Variant::kLionS;
  PatchOrder order = PatchOrder::kNormal;
};

// 16 x 16 patches, mean pooling, 1,000 classes, no position embeddings. Weights are drawn so that activations keep
// their size from layer to layer, and gates are half open.
LoadedModel RandomModel(const ModelShape& shape);

}  // namespace lion
