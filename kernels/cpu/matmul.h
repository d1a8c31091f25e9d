// Matrix products through oneDNN: beside block_product.* and product_limit.* the one file that knows its API (2.x and
// 3.x).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/linear.h"

namespace lion::cpu {

// Products always run on tiles of this many rows: one shape to generate code for, whatever the batch, and the same
// arithmetic for a row wherever it stands.
inline constexpr int64_t kRowTile = 64;

// What becomes of a product x W^T while it is in registers.
enum class Epilogue : uint8_t {
  kBias,         // y = x W^T + b, float32
  kBiasCompute,  // the same, in compute_type()
  kBiasAdd,      // y += x W^T + b, float32
};
inline constexpr size_t kEpilogues = 3;

// x W^T + b for one tile of rows, the weights reordered once to what the machine likes best. Immutable, any thread.
class Matmul : public PackedLinear {
 public:
  // UNIMPLEMENTED: this machine has no such product. INTERNAL: oneDNN failed.
  static absl::StatusOr<std::unique_ptr<Matmul>> Create(const LinearPack& pack);
  ~Matmul() override;

  DataType compute_type() const;
  int64_t body_outputs() const { return outputs() - (tail_ == nullptr ? 0 : tail_->outputs()); }
  const Matmul* tail() const { return tail_.get(); }  // the last outputs as a product of their own, or nullptr
  int64_t scratch_bytes() const;                      // for Run, 64-byte aligned

  // y [kRowTile, body_outputs] from input [kRowTile, inputs] of compute_type(). All three buffers are the caller's.
  absl::Status Run(Epilogue epilogue, const void* input, void* output, void* scratch) const;

 private:
  struct Impl;
  Matmul(std::unique_ptr<Impl> impl, std::unique_ptr<Matmul> tail, const LinearPack& pack, int64_t bytes);
  const std::unique_ptr<Impl> impl_;
  const std::unique_ptr<Matmul> tail_;
};

// Keeps oneDNN to at most this instruction set ("scalar": SSE4.1, its smallest; "avx2"; "avx512"; "auto": all). Only
// the first call of a process, before any product, can do this: FAILED_PRECONDITION later.
absl::Status LimitMatmulIsa(const char* isa);

}  // namespace lion::cpu
