// In which order the work of several callers is served so that they get equal shares: an order alone, with no thread or
// clock in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>

namespace lion {

// Start-time fair queueing (Goyal, Vin, Cheng 1996) with a head start for priority. A caller's pieces of work (tokens)
// follow one another in virtual time, the first beginning at the virtual time of its arrival; whatever begins first,
// less its head start, is next. Virtual time is the earliest begin of what waits. So callers who always have work
// waiting get equal shares, however much each has waiting; a newcomer comes before the backlog of the others; and
// priority decides who comes first, not who gets more: a head start is spent by overtaking with it. Once nothing waits
// all are equal again.
//
// Bound. While a piece of priority q waits that has `own` units of its caller's before it, what was served last
// included, each other caller, with pieces of at most s units and priority at most r, is served before it at most
//   max(0, own + s + (r - q) * priority_step + a + b)
// units. a is 0 as long as that other caller's waiting work was not itself overtaken because of priority, and at most
// kMaxPriority * priority_step: what had to wait for more urgent work is not overtaken for ever. b is a thousandth of
// what was served while that caller's oldest work waited. So nothing starves. Not thread-safe.
class FairOrder {
 public:
  // `priority_step`: the head start, in units of work, that one level of priority is worth; >= 0.
  explicit FairOrder(int64_t priority_step) : priority_step_(priority_step * kScale) {}

  struct Place {
    uint64_t caller = 0;
    int64_t begin = 0;  // virtual
    int64_t end = 0;    // virtual
    int64_t order = 0;  // the begin less the head start: the smallest is next, and of equals the first that came
  };

  // Puts `work` (> 0) behind what its caller has waiting.
  Place Enter(uint64_t caller, int64_t work, int priority);
  // What was given `place` is served now.
  void Serve(const Place& place);
  // It will not be served. Its caller's next work takes its place if it was the last; otherwise the time it stood for
  // has been waited for.
  void Drop(const Place& place);

  // How many are remembered: those with work waiting or ahead of virtual time, and others for a while.
  size_t callers() const { return callers_.size(); }

 private:
  static constexpr int64_t kScale = 1024;  // virtual time in a unit of work

  struct Caller {
    int64_t end = 0;      // of its last piece
    int64_t waiting = 0;  // pieces
  };

  void Leave(const Place& place);
  void Forget();

  const int64_t priority_step_;  // virtual
  int64_t virtual_time_ = 0;
  std::unordered_map<uint64_t, Caller> callers_;
  int64_t waiting_callers_ = 0;
  std::multiset<int64_t> begins_;  // of all that waits
  size_t forget_at_ = 64;
};

}  // namespace lion
