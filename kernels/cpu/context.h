// Threads and scratch memory of one engine on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/mixer_products.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/operations.h"

namespace lion::cpu {

// Memory of one thread, 64-byte aligned; grows, never shrinks. Contents do not survive Reserve.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* Reserve(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Cuts one reservation into aligned arrays: first all Add, then Take in the same order.
class ScratchPlan {
 public:
  template <typename T>
  void Add(int64_t count) {
    bytes_ += Rounded(count * static_cast<int64_t>(sizeof(T)));
  }
  int64_t bytes() const { return bytes_; }
  void Use(std::byte* memory) { next_ = memory; }
  template <typename T>
  T* Take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += Rounded(count * static_cast<int64_t>(sizeof(T)));
    return taken;
  }

 private:
  static int64_t Rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t bytes_ = 0;
  std::byte* next_ = nullptr;
};

class CpuContext : public KernelContext {
 public:
  explicit CpuContext(const ContextOptions& options);

  ThreadPool& pool() { return pool_; }
  // Of the thread that runs the current task.
  std::byte* Reserve(int thread, int64_t bytes) { return scratch_[thread].Reserve(bytes); }
  // Shared by the tasks of one loop; reserved before it.
  std::byte* ReserveShared(int64_t bytes) { return shared_.Reserve(bytes); }
  int64_t scratch_bytes() const override;
  // The mixer's products for heads of this width, made when first asked for. Errors as of MixerProducts::Create.
  absl::StatusOr<const MixerProducts*> Products(DataType operands, int64_t width, bool decays);

 private:
  ThreadPool pool_;
  std::vector<Scratch> scratch_;
  Scratch shared_;
  std::vector<std::unique_ptr<MixerProducts>> products_;
};

inline CpuContext& Cpu(KernelContext& context) { return static_cast<CpuContext&>(context); }

// What grows of the mixer's scratch with the length of sequences.
struct MixerScratch {
  int64_t thread_bytes = 0, shared_bytes = 0;
};
MixerScratch MixerScratchOf(const ContextOptions& options);

}  // namespace lion::cpu
