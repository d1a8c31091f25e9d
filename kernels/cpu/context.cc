#include "kernels/cpu/context.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace lion::cpu {

Scratch::~Scratch() { std::free(data_); }

std::byte* Scratch::Reserve(int64_t bytes) {
  if (bytes > bytes_) {
    std::free(data_);
    bytes_ = (bytes + 4095) / 4096 * 4096;
    data_ = static_cast<std::byte*>(std::aligned_alloc(64, bytes_));
    if (data_ == nullptr) {
      bytes_ = 0;
      throw std::bad_alloc();
    }
    // Touched now, so that a lack of memory shows when an engine is made and not under load.
    std::memset(data_, 0, bytes_);
  }
  return data_;
}

CpuContext::CpuContext(const ContextOptions& options) : pool_(options.threads), scratch_(options.threads) {
  const MixerScratch mixer = MixerScratchOf(options);
  for (Scratch& scratch : scratch_) scratch.Reserve(mixer.thread_bytes);
  shared_.Reserve(mixer.shared_bytes);
}

absl::StatusOr<const MixerProducts*> CpuContext::Products(DataType operands, int64_t width, bool decays) {
  for (const auto& known : products_) {
    if (known->operands() == operands && known->width() == width && known->decays() == decays) return known.get();
  }
  absl::StatusOr<std::unique_ptr<MixerProducts>> products =
      MixerProducts::Create(operands, width, decays, pool_.threads());
  if (!products.ok()) return products.status();
  return products_.emplace_back(*std::move(products)).get();
}

int64_t CpuContext::scratch_bytes() const {
  int64_t bytes = shared_.bytes();
  for (const Scratch& scratch : scratch_) bytes += scratch.bytes();
  return bytes;
}

}  // namespace lion::cpu
