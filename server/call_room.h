// The room in the queue that a call's inputs share until it is known how many tokens each of them has.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/batcher.h"
#include "server/mutex.h"

namespace lion {

// All methods may be called from any thread.
class CallRoom {
 public:
  // What one input may come to need. Given up unless taken.
  class Claim {
   public:
    // `most_tokens` is counted in the room's own.
    Claim(std::shared_ptr<CallRoom> room, int64_t most_tokens) : room_(std::move(room)), most_tokens_(most_tokens) {}
    Claim(Claim&&) = default;
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (room_ != nullptr) room_->Settle(most_tokens_, 0).IgnoreError();
    }
    // The input has so many. INVALID_ARGUMENT: the others have left no room for it.
    absl::StatusOr<Batcher::Reservation> Take(int64_t tokens) {
      return std::exchange(room_, nullptr)->Settle(most_tokens_, tokens);
    }

   private:
    std::shared_ptr<CallRoom> room_;
    int64_t most_tokens_;
  };

  // `most_tokens`: of all claims. `room` may be less: texts have far fewer tokens than bytes, and a call is not refused
  // for what it could have.
  CallRoom(Batcher::Reservation room, int64_t most_tokens) : room_(std::move(room)), claimed_tokens_(most_tokens) {}

 private:
  // Gives back what the claims that are left cannot need.
  absl::StatusOr<Batcher::Reservation> Settle(int64_t most_tokens, int64_t tokens);

  Mutex mutex_;
  Batcher::Reservation room_ ABSL_GUARDED_BY(mutex_);
  int64_t claimed_tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lion
