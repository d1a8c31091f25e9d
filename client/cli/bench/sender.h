// Who sends calls: the boundary that tests put a server of known behaviour behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "client/cli/bench/answer.h"

namespace lion::bench {

class Sender {
 public:
  virtual ~Sender() = default;

  // Starts a call with images of size number `size` of the mix and returns the bytes of its request. Never waits for
  // the server. `done` is called exactly once, from any thread. Called from one thread at a time.
  virtual int64_t Send(size_t size, std::function<void(Answer)> done) = 0;

  // Ends the calls that are running: soon each of them is done. From any thread.
  virtual void Cancel() = 0;
};

}  // namespace lion::bench
