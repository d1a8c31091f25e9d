#include "server/fair_order.h"

#include <algorithm>

namespace lion {

FairOrder::Place FairOrder::Enter(uint64_t caller, int64_t work, int priority) {
  if (callers_.size() >= forget_at_) Forget();
  Caller& entry = callers_.try_emplace(caller).first->second;
  const int64_t begin = std::max(entry.end, virtual_time_);
  begins_.insert(begin);  // the last that may throw
  if (entry.waiting++ == 0) ++waiting_callers_;
  entry.end = begin + work * kScale;
  return {.caller = caller, .begin = begin, .end = entry.end, .order = begin - priority * priority_step_};
}

void FairOrder::Serve(const Place& place) {
  // The earliest begin, and not that of `place`: an urgent piece would else put every newcomer behind the others'
  // backlog.
  virtual_time_ = std::max(virtual_time_, *begins_.begin());
  // That virtual time never stands still is for the sake of those who wait: otherwise ever new callers would come
  // before them for ever. While they are overtaken it goes at half of each caller's share, else as slowly as will do.
  const int64_t length = place.end - place.begin;
  const bool overtakes = place.begin > *begins_.begin();
  virtual_time_ += overtakes ? std::max<int64_t>(1, length / (2 * waiting_callers_)) : length / kScale;
  Leave(place);
}

void FairOrder::Drop(const Place& place) {
  Caller& entry = callers_.at(place.caller);
  if (entry.end == place.end) entry.end = place.begin;
  Leave(place);
}

void FairOrder::Leave(const Place& place) {
  begins_.erase(begins_.find(place.begin));
  if (--callers_.at(place.caller).waiting == 0) --waiting_callers_;
  if (begins_.empty()) callers_.clear();
}

// An end that lies behind means the same as never having been here.
void FairOrder::Forget() {
  std::erase_if(callers_,
                [this](const auto& entry) { return entry.second.waiting == 0 && entry.second.end <= virtual_time_; });
  forget_at_ = 2 * callers_.size() + 64;
}

}  // namespace lion
