#include "kernels/cpu/mixer_products.h"

#include <algorithm>
#include <utility>

namespace lion::cpu {

absl::StatusOr<std::unique_ptr<MixerProducts>> MixerProducts::Create(DataType operands, int64_t width, bool decays,
                                                                     int threads) {
  auto products = std::make_unique<MixerProducts>();
  products->operands_ = operands;
  products->width_ = width;
  products->decays_ = decays;
  const auto add = [&](const BlockProduct::Shape& shape, std::unique_ptr<BlockProduct>& to) {
    absl::StatusOr<std::unique_ptr<BlockProduct>> product = BlockProduct::Create(shape, threads);
    if (!product.ok()) return product.status();
    to = *std::move(product);
    products->scratch_bytes_ = std::max(products->scratch_bytes_, to->scratch_bytes());
    return absl::OkStatus();
  };
  for (int64_t n = kBlockStep; n <= kBlock; n += kBlockStep) {
    BlockProducts& size = products->sizes_[n / kBlockStep - 1];
    absl::Status status = add({.rows = decays ? 2 * width : width,
                               .depth = n,
                               .columns = width,
                               .transposed_a = true,
                               .input = operands,
                               .output = operands},
                              size.state);
    if (!status.ok()) return status;
    if (decays) {
      status = add({.rows = n, .depth = width, .columns = n, .transposed_b = true, .input = operands}, size.scores);
      if (!status.ok()) return status;
    }
    status =
        add({.rows = n, .depth = decays ? n + 2 * width : width, .columns = width, .input = operands}, size.output);
    if (!status.ok()) return status;
  }
  return products;
}

}  // namespace lion::cpu
