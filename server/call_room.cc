#include "server/call_room.h"

#include "absl/strings/str_cat.h"

namespace lion {

absl::StatusOr<Batcher::Reservation> CallRoom::Settle(const TokenNeed& need, int64_t tokens) {
  Batcher::Reservation surplus;  // given back without the lock
  MutexLock lock(mutex_);
  const TokenNeed others = {claimed_.least - need.least, claimed_.most - need.most};
  if (tokens > 0) {
    const int64_t left = max_tokens_ - taken_tokens_ - others.least;
    if (tokens > left) {
      return absl::InvalidArgumentError(absl::StrCat("the input has ", tokens, " tokens, the call's others have left ",
                                                     left,
                                                     " of what the queue holds (--max-queue-tokens): split the call"));
    }
    const int64_t missing = tokens + others.least - room_.tokens();
    if (missing > 0) {
      if (absl::Status status = room_.Grow(missing); !status.ok()) return status;
    }
  }
  claimed_ = others;
  taken_tokens_ += tokens;
  Batcher::Reservation taken = room_.Split(tokens);
  if (room_.tokens() > claimed_.most) surplus = room_.Split(room_.tokens() - claimed_.most);
  return taken;
}

}  // namespace lion
