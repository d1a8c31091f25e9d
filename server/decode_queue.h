// Which waiting image is decoded next: an order alone, with no thread, clock or picture in it.
#pragma once

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

// The least work that an image counts for: its header, and being handed from thread to thread.
inline constexpr int64_t kMinDecodePixels = 4096;
// The head start that one level of priority is worth: about a second of one thread's decoding.
inline constexpr int64_t kDecodePriorityStepPixels = int64_t{64} << 20;

// One image to decode.
struct DecodeJob {
  int64_t pixels = 0;                            // of work: read, resized and written
  int64_t bytes = 0;                             // of memory while it is decoded
  int64_t deadline_ns = kNever;                  // at this time it is too late
  const std::atomic<bool>* cancelled = nullptr;  // null: cannot be; lives as long as `run`
  // Called once: with OK to decode, else with why it is dropped. Quick in that case.
  std::function<void(const absl::Status& dropped)> run;
};

// Fair queueing between calls by pixels of work (Demers, Keshav, Shenker 1989). Virtual time counts the pixels that
// each of the waiting calls was given. A call begins at the virtual time of its arrival, its images follow one another,
// each beginning where the one before it ended; the earliest virtual end, less the priority's head start, is next, and
// of equals the first that came. So a newcomer's small image comes before everything large that waits, and a call of
// many images delays others by about one of its images.
//
// Bound: with at most n calls waiting, later arrivals overtake an image with less than 2 n (p + kMaxPriority *
// kDecodePriorityStepPixels) pixels, where p are the pixels of its call up to its own: nothing starves.
// Not thread-safe.
class DecodeQueue {
 public:
  // One call's images, in the order they are to be decoded. `priority`: 0..kMaxPriority.
  void Push(std::vector<DecodeJob> jobs, int priority);

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  // Pixels of all that wait, each at least kMinDecodePixels.
  int64_t pixels() const { return pixels_; }
  // The next; not when empty.
  const DecodeJob& Front() const { return waiting_.begin()->second.job; }
  // Takes it to be decoded.
  DecodeJob Pop();

  struct Dropped {
    DecodeJob job;
    absl::Status why;  // DEADLINE_EXCEEDED or CANCELLED
  };
  // Removes what nobody waits for any more: from the front on up to the first that is wanted, or of all.
  void DropDeadFront(int64_t now_ns, std::vector<Dropped>* dropped);
  void DropDead(int64_t now_ns, std::vector<Dropped>* dropped);

 private:
  struct Waiting {
    DecodeJob job;
    int64_t begin = 0;  // virtual
    uint64_t call = 0;
  };
  using Key = std::pair<int64_t, uint64_t>;  // virtual end less the head start, then the order of arrival
  using Iterator = std::map<Key, Waiting>::iterator;

  // Takes it out without any effect on virtual time.
  Waiting Remove(Iterator place);

  std::map<Key, Waiting> waiting_;
  std::map<uint64_t, int64_t> images_of_call_;  // of those that wait
  int64_t virtual_pixels_ = 0;
  int64_t pixels_ = 0;
  uint64_t next_call_ = 0;
  uint64_t next_image_ = 0;
};

}  // namespace lion
