// Texts that wait until the test lets them be tokenized.
#pragma once

#include <atomic>
#include <thread>

#include "tests/server/rpc_stream_fixture.h"

namespace lion {

class RpcHeldTextsTest : public RpcStreamTest {
 protected:
  // Keeps both tokenizing threads until `released_`.
  void HoldTokenizing() {
    const auto wait = [this](const absl::Status&) {
      ++running_;
      while (!released_) std::this_thread::yield();
      --running_;
    };
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(tokenize_pool_.Submit({{.work = 1, .run = wait}}, 0).ok());
    while (running_ < 2) std::this_thread::yield();
  }
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
    released_ = true;
    // The threads read this object: it must not go before they have gone on.
    while (running_ > 0) std::this_thread::yield();
    RpcStreamTest::TearDown();
  }

  std::atomic<int> running_ = 0;
  std::atomic<bool> released_ = false;
};

}  // namespace lion
