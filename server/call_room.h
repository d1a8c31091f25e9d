// The room in the queue that a call's inputs share until it is known how many tokens each of them has.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/batcher.h"
#include "server/mutex.h"

namespace lion {

// The tokens that an input, or all of a call's, may come to need.
struct TokenNeed {
  int64_t least = 0;  // >= 1
  int64_t most = 0;
};

// Keeps the least of every claim, so that the batcher stays as long as there is one. All methods may be called from any
// thread.
class CallRoom {
 public:
  // What one input may come to need. Given up unless taken.
  class Claim {
   public:
    // `need` is counted in the room's own.
    Claim(std::shared_ptr<CallRoom> room, const TokenNeed& need) : room_(std::move(room)), need_(need) {}
    Claim(Claim&&) = default;
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (room_ != nullptr) room_->Settle(need_, 0).IgnoreError();
    }
    // The input has so many (> 0). INVALID_ARGUMENT: with the call's others that is more than the queue ever holds.
    // RESOURCE_EXHAUSTED: the room has to grow, and the queue is full. After an error the claim is still there.
    absl::StatusOr<Batcher::Reservation> Take(int64_t tokens) {
      absl::StatusOr<Batcher::Reservation> taken = room_->Settle(need_, tokens);
      if (taken.ok()) room_.reset();
      return taken;
    }

   private:
    std::shared_ptr<CallRoom> room_;
    TokenNeed need_;
  };

  // `need`: of all claims. `room`: at least the least of it; less than the most, because texts have far fewer tokens
  // than bytes. `max_tokens`: that a call may have.
  CallRoom(Batcher::Reservation room, const TokenNeed& need, int64_t max_tokens)
      : max_tokens_(max_tokens), room_(std::move(room)), claimed_(need) {}

 private:
  // Gives back what the claims that are left cannot need. An error changes nothing.
  absl::StatusOr<Batcher::Reservation> Settle(const TokenNeed& need, int64_t tokens);

  const int64_t max_tokens_;
  Mutex mutex_;
  Batcher::Reservation room_ ABSL_GUARDED_BY(mutex_);
  TokenNeed claimed_ ABSL_GUARDED_BY(mutex_);
  int64_t taken_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lion
