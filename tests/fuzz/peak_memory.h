// How much memory a piece of work takes, whoever allocates it: C libraries that the sanitizers do not see into, too.
#pragma once

#include <cstdint>

namespace lion::fuzz {

// Of the thread that makes it, from then on: the most bytes that were allocated and not freed at one time. One at a
// time in a thread.
class PeakMemory {
 public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  int64_t bytes() const;
};

}  // namespace lion::fuzz
