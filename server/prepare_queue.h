// Which waiting input is prepared next: an order alone, with no thread, clock, picture or text in it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/batch_policy.h"

namespace lion {

// What the work of one kind of input is counted in, and called in messages.
struct PrepareKind {
  const char* thread;     // its threads' name; at most 15 characters
  const char* inputs;     // "images"
  const char* unit;       // of work: "pixels of decoding and resizing"
  const char* limit;      // what sets PreparePoolOptions::max_queue_work: "--max-queue-pixels"
  int64_t least_work;     // that an input counts for: its header, and being handed from thread to thread
  int64_t priority_step;  // the head start that one level of priority is worth: about a second of one thread's work
};

// An image's work is its pixels, read, resized and written.
inline constexpr PrepareKind kImageKind = {.thread = "lion-decode",
                                           .inputs = "images",
                                           .unit = "pixels of decoding and resizing",
                                           .limit = "--max-queue-pixels",
                                           .least_work = 4096,
                                           .priority_step = int64_t{64} << 20};
inline constexpr PrepareKind kTextKind = {.thread = "lion-tokenize",
                                          .inputs = "texts",
                                          .unit = "bytes of text",
                                          .limit = "64 MiB, or 4 x --max-text-bytes where that is more",
                                          .least_work = 256,
                                          .priority_step = int64_t{16} << 20};

// One input to prepare.
struct PrepareJob {
  int64_t work = 0;
  int64_t bytes = 0;                             // of memory while it is prepared
  int64_t deadline_ns = kNever;                  // at this time it is too late
  const std::atomic<bool>* cancelled = nullptr;  // null: cannot be; lives as long as `run`
  // Called once: with OK to prepare, else with why it is dropped. Quick in that case.
  std::function<void(const absl::Status& dropped)> run;
};

// Fair queueing between calls by work (Demers, Keshav, Shenker 1989). Virtual time counts the work that each of
// the waiting calls was given. A call begins at the virtual time of its arrival, its inputs follow one another,
// each beginning where the one before it ended; the earliest virtual end, less the priority's head start, is next, and
// of equals the first that came. So a newcomer's small input comes before everything large that waits, and a call of
// many inputs delays others by about one of its inputs.
//
// Bound: with at most n calls waiting, later arrivals overtake an input with less than 2 n (w + kMaxPriority *
// priority_step) of work, where w is the work of its call up to its own: nothing starves.
// Not thread-safe.
class PrepareQueue {
 public:
  explicit PrepareQueue(const PrepareKind& kind) : kind_(kind) {}

  // One call's inputs, in the order they are to be prepared. `priority`: 0..kMaxPriority.
  void Push(std::vector<PrepareJob> jobs, int priority);

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  // What a job counts for: at least the kind's least.
  int64_t WorkOf(const PrepareJob& job) const { return std::max(job.work, kind_.least_work); }
  // Of all that wait.
  int64_t work() const { return work_; }
  // The next; not when empty.
  const PrepareJob& Front() const { return waiting_.begin()->second.job; }
  // Takes it to be prepared.
  PrepareJob Pop();

  struct Dropped {
    PrepareJob job;
    absl::Status why;  // DEADLINE_EXCEEDED or CANCELLED
  };
  // Removes what nobody waits for any more: from the front on up to the first that is wanted, or of all.
  void DropDeadFront(int64_t now_ns, std::vector<Dropped>* dropped);
  void DropDead(int64_t now_ns, std::vector<Dropped>* dropped);

 private:
  struct Waiting {
    PrepareJob job;
    int64_t begin = 0;  // virtual
    uint64_t call = 0;
  };
  using Key = std::pair<int64_t, uint64_t>;  // virtual end less the head start, then the order of arrival
  using Iterator = std::map<Key, Waiting>::iterator;

  // Takes it out without any effect on virtual time.
  Waiting Remove(Iterator place);
  // After std::bad_alloc it is still there.
  void Drop(Iterator place, absl::Status why, std::vector<Dropped>* dropped);

  const PrepareKind kind_;
  std::map<Key, Waiting> waiting_;
  std::map<uint64_t, int64_t> inputs_of_call_;  // of those that wait
  int64_t virtual_work_ = 0;
  int64_t work_ = 0;
  uint64_t next_call_ = 0;
  uint64_t next_input_ = 0;
};

}  // namespace lion
