// Matrix products through oneDNN: beside block_product.* the one file that knows its API (2.x and 3.x).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/linear.h"

namespace lion::cpu {

// Products always run on tiles of this many rows: one shape to generate code for, whatever the batch, and the same
// arithmetic for a row wherever it stands.
inline constexpr int64_t kRowTile = 64;

// y = x W^T for one tile of rows, the weights reordered once to what the machine likes best. Immutable, any thread; the
// bias is kept for whoever handles y next.
class Matmul : public PackedLinear {
 public:
  // UNIMPLEMENTED: this machine has no such product. INTERNAL: oneDNN failed.
  static absl::StatusOr<std::unique_ptr<Matmul>> Create(const LinearPack& pack);
  ~Matmul() override;

  DataType compute_type() const;
  const float* bias() const;      // [outputs padded to 16 with 0], never null
  int64_t scratch_bytes() const;  // for Run, 64-byte aligned

  // output[kRowTile, outputs] float32 = input[kRowTile, inputs] of compute_type() times the weights. All three buffers
  // are the caller's.
  absl::Status Run(const void* input, float* output, void* scratch) const;

 private:
  struct Impl;
  explicit Matmul(std::unique_ptr<Impl> impl, const LinearPack& pack, int64_t bytes);
  std::unique_ptr<Impl> impl_;
};

// Keeps oneDNN to at most this instruction set ("scalar": SSE4.1, its smallest; "avx2"; "avx512"; "auto": all). Only
// the first call of a process, before any product, can do this: FAILED_PRECONDITION later.
absl::Status LimitMatmulIsa(const char* isa);

}  // namespace lion::cpu
