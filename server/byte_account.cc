#include "server/byte_account.h"

#include "absl/strings/str_cat.h"
#include "server/pushback.h"

namespace lion {

absl::Status ByteAccount::Charge::Extend(int64_t bytes) {
  if (absl::Status status = account_->Add(bytes, bytes_); !status.ok()) return status;
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<ByteAccount::Charge> ByteAccount::Take(int64_t bytes) {
  Charge charge(this);
  if (absl::Status status = charge.Extend(bytes); !status.ok()) return status;
  return charge;
}

absl::Status ByteAccount::Add(int64_t bytes, int64_t held_bytes) {
  int64_t in_use_bytes = 0;
  {
    MutexLock lock(mutex_);
    if (in_use_bytes_ == held_bytes || bytes <= limit_bytes_ - in_use_bytes_) {
      in_use_bytes_ += bytes;
      return absl::OkStatus();
    }
    in_use_bytes = in_use_bytes_;
  }
  return TryAgainIn(kUnknownPushbackMs, absl::StrCat("the calls inside hold ", in_use_bytes, " of ", limit_bytes_,
                                                     " bytes (--max-inflight-bytes), this one needs ", bytes, " more"));
}

}  // namespace lion
