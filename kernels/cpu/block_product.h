// Products of matrices that both change from call to call, the small ones of the mixer's blocks, through oneDNN: beside
// matmul.* the one file that knows its API (2.x and 3.x).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/types.h"

namespace lion::cpu {

// C = A B for matrices of one fixed shape, packed row-major. Code is generated when one is made; oneDNN shares it
// between products of one shape.
class BlockProduct {
 public:
  struct Shape {
    int64_t rows = 0, depth = 0, columns = 0;
    bool transposed_a = false;  // A is given as [depth, rows]
    bool transposed_b = false;  // B is given as [columns, depth]
    DataType input = DataType::kFloat32;
    DataType output = DataType::kFloat32;  // sums are float32 in either
  };

  // For threads [0, threads). UNIMPLEMENTED: this machine has no such product. INTERNAL: oneDNN failed.
  static absl::StatusOr<std::unique_ptr<BlockProduct>> Create(const Shape& shape, int threads);
  ~BlockProduct();

  int64_t scratch_bytes() const;  // for Run, 64-byte aligned

  // All buffers are the caller's; no two calls at once with the same thread. Allocates nothing of ours.
  absl::Status Run(int thread, const void* a, const void* b, void* c, void* scratch) const;

 private:
  struct Impl;
  explicit BlockProduct(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lion::cpu
