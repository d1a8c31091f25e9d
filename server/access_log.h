// The access log: a line on standard output for every request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/strings/string_view.h"

namespace lion {

// Lines are JSON objects. They are written by a thread of their own, so that no request waits for who reads them: at
// most kMostWaiting lines wait, then the oldest are lost. All methods may be called from any thread.
class AccessLog {
 public:
  static constexpr size_t kMostWaiting = 8192;

  // `lost` is told at most once a second how many lines are lost, all in all. Throws std::system_error when the thread
  // cannot be started.
  static std::unique_ptr<AccessLog> Start(std::function<void(int64_t lines)> lost);
  // Writes what waits.
  virtual ~AccessLog() = default;

  // A line of the time and these JSON members: `"name":value,...`.
  virtual void Write(absl::string_view members) = 0;
};

}  // namespace lion
