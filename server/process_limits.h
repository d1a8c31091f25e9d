// What the operating system allows this process.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace lion {

// Raises the soft limit of open files to the hard one; the limit that then holds. A connection takes one file, and
// gRPC's listener stays deaf once it has found none free.
int64_t RaiseOpenFileLimit();

// RESOURCE_EXHAUSTED unless so many more threads can be alive at once: tries it. The libraries underneath abort when a
// thread cannot be started.
absl::Status CheckThreads(int threads);

}  // namespace lion
