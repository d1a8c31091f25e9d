// Matrix products through oneDNN: beside block_product.* and product_limit.* the one file that knows its API (2.x and
// 3.x).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/linear.h"

namespace lion::cpu {

// Products run on tiles of at most this many rows, in heights of a multiple of kRowStep: few shapes to generate code
// for, whatever the batch.
inline constexpr int64_t kRowTile = 64;
inline constexpr int64_t kRowStep = 16;
inline constexpr size_t kTileHeights = kRowTile / kRowStep;

// What becomes of a product x W^T while it is in registers.
enum class Epilogue : uint8_t {
  kBias,         // y = x W^T + b, float32
  kBiasCompute,  // the same, in compute_type()
  kBiasAdd,      // y += x W^T + b, float32
};
inline constexpr size_t kEpilogues = 3;

// x W^T + b for one tile of rows, the weights reordered once to what the machine likes best. The arithmetic for a row
// is the same, bit for bit, wherever it stands and whatever the height of its tile. Immutable, any thread.
class Matmul : public PackedLinear {
 public:
  // UNIMPLEMENTED: this machine has no such product. INTERNAL: oneDNN failed.
  static absl::StatusOr<std::unique_ptr<Matmul>> Create(const LinearPack& pack);
  ~Matmul() override;

  DataType compute_type() const;
  int64_t body_outputs() const { return outputs() - (tail_ == nullptr ? 0 : tail_->outputs()); }
  const Matmul* tail() const { return tail_.get(); }  // the last outputs as a product of their own, or nullptr
  int64_t scratch_bytes() const;                      // for Run, 64-byte aligned
  // Heights are multiples of this: kRowStep, or kRowTile where the library's lower tiles compute a row in another way.
  int64_t row_step() const { return row_step_; }

  // y [height, body_outputs] from input [height, inputs] of compute_type(). All three buffers are the caller's.
  absl::Status Run(Epilogue epilogue, int64_t height, const void* input, void* output, void* scratch) const;

 private:
  struct Impl;
  Matmul(std::unique_ptr<Impl> impl, std::unique_ptr<Matmul> tail, const LinearPack& pack, int64_t bytes);
  const std::unique_ptr<Impl> impl_;
  const std::unique_ptr<Matmul> tail_;
  int64_t row_step_;
};

// Keeps oneDNN to at most this instruction set ("scalar": SSE4.1, its smallest; "avx2"; "avx512"; "auto": all). Only
// the first call of a process, before any product, can do this: FAILED_PRECONDITION later.
absl::Status LimitMatmulIsa(const char* isa);

}  // namespace lion::cpu
