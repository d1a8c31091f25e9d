// Texts that wait until the test lets them be tokenized.
#pragma once

#include <thread>

#include "tests/server/held_threads.h"
#include "tests/server/rpc_stream_fixture.h"

namespace lion {

class RpcHeldTextsTest : public RpcStreamTest {
 protected:
  // Keeps both tokenizing threads until ReleaseTokenizing.
  void HoldTokenizing() { held_.Hold(&tokenize_pool_, 2); }
  void ReleaseTokenizing() { held_.Release(); }
  void AwaitWaiting(int64_t tokens) {
    while (models()[0]->waiting_tokens() != tokens) std::this_thread::yield();
  }
  // The server hears of a cancelled call a little later than its caller. What asks for more room than there is makes it
  // drop what it has heard of.
  void AwaitDropped(int64_t inputs) {
    while (models()[0]->dropped_inputs() < inputs) {
      tokenize_pool_.Submit({{.work = int64_t{1} << 40, .run = [](const absl::Status&) {}}}, 0).IgnoreError();
      std::this_thread::yield();
    }
  }
  void TearDown() override {
    ReleaseTokenizing();
    RpcStreamTest::TearDown();
  }

  HeldThreads held_;
};

}  // namespace lion
