#include "server/fair_order.h"

#include <algorithm>

namespace lion {

FairOrder::Place FairOrder::Enter(uint64_t caller, int64_t work, int priority) {
  if (callers_.size() >= forget_at_) Forget();
  Caller& entry = callers_.try_emplace(caller).first->second;
  if (entry.waiting++ == 0) ++waiting_callers_;
  const int64_t begin = std::max(entry.end, virtual_time_);
  entry.end = begin + work * kScale;
  return {.caller = caller, .begin = begin, .end = entry.end, .order = begin - priority * priority_step_};
}

void FairOrder::Serve(const Place& place) {
  // Less the head start: one urgent piece would else put every newcomer behind the others' backlog.
  virtual_time_ = std::max(virtual_time_, place.order);
  // That virtual time never stands still is for the sake of those who wait: otherwise ever new callers would come
  // before them for ever. For urgent work it goes at half of each caller's share, elsewhere as slowly as will do.
  const int64_t length = place.end - place.begin;
  virtual_time_ += place.order < place.begin ? std::max<int64_t>(1, length / (2 * waiting_callers_)) : length / kScale;
  Leave(place.caller);
}

void FairOrder::Drop(const Place& place) {
  callers_.at(place.caller).end -= place.end - place.begin;
  Leave(place.caller);
}

void FairOrder::Leave(uint64_t caller) {
  if (--callers_.at(caller).waiting == 0) --waiting_callers_;
}

// An end that lies behind means the same as never having been here.
void FairOrder::Forget() {
  std::erase_if(callers_,
                [this](const auto& entry) { return entry.second.waiting == 0 && entry.second.end <= virtual_time_; });
  forget_at_ = 2 * callers_.size() + 64;
}

}  // namespace lion
