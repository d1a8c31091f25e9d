// One account of the bytes that all calls inside the server hold.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/mutex.h"

namespace lion {

// Never blocks: what does not fit is refused. Whoever would be the only one in the account is never refused, so that
// the limit bounds how much comes together and not how large a single call may be. All methods may be called from any
// thread; outlives its charges.
class ByteAccount {
 public:
  // Gives its bytes back when it goes out of scope. For one thread at a time.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept
        : account_(std::exchange(other.account_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Charge& operator=(Charge&& other) noexcept {
      std::swap(account_, other.account_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Charge() {
      if (account_ != nullptr) account_->Release(bytes_);
    }
    // Adds to it. After an error it is as before. Not on one that was made by the default constructor.
    absl::Status Extend(int64_t bytes);
    int64_t bytes() const { return bytes_; }

   private:
    friend class ByteAccount;
    explicit Charge(ByteAccount* account) : account_(account) {}
    ByteAccount* account_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit ByteAccount(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // RESOURCE_EXHAUSTED with kRetryPushbackPayload: no room now.
  absl::StatusOr<Charge> Take(int64_t bytes);

  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t in_use_bytes() const {
    MutexLock lock(mutex_);
    return in_use_bytes_;
  }

 private:
  // For one who holds `held_bytes` already.
  absl::Status Add(int64_t bytes, int64_t held_bytes);
  void Release(int64_t bytes) {
    MutexLock lock(mutex_);
    in_use_bytes_ -= bytes;
  }

  const int64_t limit_bytes_;
  mutable Mutex mutex_;
  int64_t in_use_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lion
