// The matrix products of the chunkwise mixer, for blocks of tokens with heads of one width.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/block_product.h"

namespace lion::cpu {

// Tokens of a block: the last of a sequence may have fewer. Its products run on its tokens rounded up to kBlockStep.
inline constexpr int64_t kBlock = 64;
inline constexpr int64_t kBlockStep = 16;
constexpr int64_t PaddedTokens(int64_t tokens) { return (tokens + kBlockStep - 1) / kBlockStep * kBlockStep; }

// n: tokens of a block, padded; w: head width, padded by the caller; D: directions, 2 with decay and 1 without.
struct BlockProducts {
  std::unique_ptr<BlockProduct> state;   // [D w, w] of the operands' type = A^T B, A [n, D w], B [n, w]
  std::unique_ptr<BlockProduct> scores;  // [n, n] float32 = A B^T, A [n, w], B [n, w]; with decay alone
  std::unique_ptr<BlockProduct> output;  // [n, w] float32 = A B, A [n, n + 2 w], or [n, w] without decay
};

// Immutable, any thread; but see BlockProduct::Run.
class MixerProducts {
 public:
  // Errors as of BlockProduct::Create.
  static absl::StatusOr<std::unique_ptr<MixerProducts>> Create(DataType operands, int64_t width, bool decays,
                                                               int threads);

  const BlockProducts& OfPaddedTokens(int64_t tokens) const { return sizes_[tokens / kBlockStep - 1]; }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // the most of any

  DataType operands() const { return operands_; }
  int64_t width() const { return width_; }
  bool decays() const { return decays_; }

 private:
  DataType operands_ = DataType::kFloat32;
  int64_t width_ = 0;
  bool decays_ = false;
  int64_t scratch_bytes_ = 0;
  std::array<BlockProducts, kBlock / kBlockStep> sizes_;
};

}  // namespace lion::cpu
