// The limit that a forward pass is held against: its matrix products and nothing else.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/types.h"

namespace lion::cpu {

struct ProductShape {
  int64_t width = 0;      // D
  int64_t mlp_width = 0;  // as a rule 4 D
  int64_t depth = 0;
  int64_t tokens = 0;  // rows of every product
};

// The products qkv, proj, fc1 and fc2 of every layer, each layer with weights of its own, prepacked by oneDNN; operands
// and results of `type`, float32 sums; rows cut into tiles of one size and spread over threads. No bias, norm,
// activation or mixer, and no conversion.
class ProductLimit {
 public:
  // Takes the memory of all weights. Throws what oneDNN throws where it lacks such a product.
  ProductLimit(const ProductShape& shape, int64_t tile_rows, DataType type, int threads);
  ~ProductLimit();
  // One pass through all of them.
  void Run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lion::cpu
