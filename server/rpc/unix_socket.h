// A Unix socket to listen on.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace lion {

// Makes `path` free to be bound: a socket that nobody listens on any more, as a killed server leaves it, is removed.
// UNAVAILABLE: a server listens there, something else is in the place, or the folder is not there.
// INVALID_ARGUMENT: no socket can have this path.
absl::Status MakeRoomForSocket(const std::string& path);

// While it lives, the sockets that this process binds have this mode (0660: their owner and group may connect). Affects
// all files that are made meanwhile.
class SocketMode {
 public:
  explicit SocketMode(mode_t mode);
  ~SocketMode();
  SocketMode(const SocketMode&) = delete;
  SocketMode& operator=(const SocketMode&) = delete;

 private:
  const mode_t before_;
};

}  // namespace lion
