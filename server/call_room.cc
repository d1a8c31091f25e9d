#include "server/call_room.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lion {

absl::StatusOr<Batcher::Reservation> CallRoom::Settle(int64_t most_tokens, int64_t tokens) {
  Batcher::Reservation surplus;  // given back without the lock
  MutexLock lock(mutex_);
  claimed_tokens_ -= most_tokens;
  if (tokens > room_.tokens()) {
    return absl::InvalidArgumentError(absl::StrCat("the input has ", tokens, " tokens, the call's others have left ",
                                                   room_.tokens(),
                                                   " of what the queue holds (--max-queue-tokens): split the call"));
  }
  Batcher::Reservation taken = room_.Split(tokens);
  if (room_.tokens() > claimed_tokens_) surplus = room_.Split(room_.tokens() - claimed_tokens_);
  return taken;
}

}  // namespace lion
