// A CUDA grid on the host, for tests: blocks run one after the other, a block's threads as fibers of the calling thread
// that take turns wherever they wait for each other. A fault (a barrier that some thread never reaches, an access out
// of bounds, lanes of a warp in different operations) ends the launch and is told with block and thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace lion::cuda::emulation {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

// How threads and blocks take turns; a right kernel gives the same result in any. Of the calling thread; kLockstep at
// first.
enum class RunOrder : uint8_t {
  kLockstep,  // all go from one operation of their warp to the next, from the first to the last
  kBackward,  // the last warp runs until it waits for the block, then the one before it: it has overwritten what others
              // have not read yet if a barrier is missing
  kShuffled,  // the same with warps and lanes in random order
};
void SetRunOrder(RunOrder order);

struct GridSize {
  Index3 blocks = {1, 1, 1};
  int threads = 32;          // a multiple of 32, at most 1,024
  int64_t shared_bytes = 0;  // at most 99 KiB, as on the smallest of the supported devices
};

// Runs `thread` for every thread of every block. nullptr, or what went wrong, valid until the calling thread's next
// call.
const char* RunGrid(const char* kernel, const GridSize& size, const std::function<void()>& thread);

// The following are for threads of a running block.

// Ends the launch.
[[noreturn]] void Fail(const std::string& what);

// Waits for all threads of the block. One that has returned never arrives.
void WaitForBlock();

// What the lanes of a warp bring to a common operation, and what it gives them.
struct WarpExchange {
  static constexpr size_t kBytes = 96;
  alignas(16) std::byte in[32][kBytes];
  alignas(16) std::byte out[32][kBytes];
};

// Waits for all lanes of the warp, each bringing `bytes` of `in` to the operation `what` (compared by its address); the
// last one runs `combine` (unless nullptr). The result is valid until this lane's next operation.
const WarpExchange& MeetWarp(const char* what, const void* in, size_t bytes, void (*combine)(WarpExchange&) = nullptr);

// The block's shared memory, all bits set (NaN as float32 and bfloat16) when the block begins.
std::byte* SharedBase();
int64_t SharedSize();

}  // namespace lion::cuda::emulation
