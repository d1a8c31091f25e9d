// The limit that a forward pass is held against: its matrix products and nothing else.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/types.h"

namespace lion {

// The products qkv, proj, fc1 and fc2 of every layer, each layer with weights of its own, prepacked by oneDNN; operands
// and results of `type`, float32 sums; rows cut into tiles of one size and spread over threads. No bias, norm,
// activation or mixer, and no conversion.
class Products {
 public:
  // `tokens`: rows of every product. Takes the memory of all weights.
  Products(int64_t width, int64_t depth, int64_t tokens, int64_t tile_rows, DataType type, int threads);
  ~Products();
  // One pass through all of them. Never the figure of an error: it aborts.
  void Run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lion
