// Failures to allocate as a Status: C++ containers throw, and nothing above the image code catches.
#pragma once

#include <new>

#include "absl/status/status.h"

namespace lion {

// What `work` returns, a Status or StatusOr; RESOURCE_EXHAUSTED with `message` where it throws std::bad_alloc. Objects
// of `work` are destroyed by then, so that the message has memory. `work` must not throw through a C library.
template <typename Work>
auto WithinMemory(const char* message, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(message);
  }
}

}  // namespace lion
