#include "kernels/cuda/emulated/block.h"

#include <cstring>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/emulated/device.h"
#include "kernels/cuda/emulated/fiber.h"

constinit thread_local lion::cuda::emulation::Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace lion::cuda::emulation {
namespace {

// The least that a supported device has for a block (8.6, 8.9 and 12.0).
constexpr int64_t kMaxSharedBytes = int64_t{99} << 10;
constexpr const char* kBarrier = "__syncthreads";

struct Thread {
  explicit Thread(void (*run)()) : fiber(run) {}
  Fiber fiber;
  bool done = false;
  const char* waits_for = nullptr;  // or ready
};

struct Warp {
  WarpExchange exchange[2];  // a lane is at most one operation ahead of another
  unsigned operations = 0;
  int arrived = 0;
  const char* operation = nullptr;
};

// Unwinds the thread at fault; the others are dropped where they stand, where kernels hold nothing.
struct Fault {};

class Executor {
 public:
  const char* Run(const char* kernel, const GridSize& size, const std::function<void()>& thread);

  [[noreturn]] void Fail(const std::string& what);
  void WaitForBlock();
  const WarpExchange& MeetWarp(const char* what, const void* in, size_t bytes, void (*combine)(WarpExchange&));
  std::byte* shared() { return shared_.get(); }
  int64_t shared_size() const { return size_.shared_bytes; }

  RunOrder order = RunOrder::kLockstep;

 private:
  // Of each fiber: one thread of a block after the other.
  static void RunThreads();
  void RunBlock();
  void Resume(int thread);
  // From the running fiber back to RunBlock; returns when the fiber is resumed.
  void Yield();
  std::string WhereThreadsStand() const;
  std::vector<int> Turns(int count);

  GridSize size_;
  const std::function<void()>* body_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Warp> warps_;
  std::unique_ptr<std::byte[]> shared_;
  int running_ = 0;
  int at_barrier_ = 0;
  std::string fault_, report_;
  std::mt19937 random_{1};
};

Executor& Current() {
  thread_local Executor executor;
  return executor;
}

void Executor::RunThreads() {
  Executor& self = Current();
  for (;;) {
    try {
      (*self.body_)();
    } catch (const Fault&) {
    }
    self.threads_[self.running_]->done = true;
    self.Yield();
  }
}

void Executor::Yield() { threads_[running_]->fiber.Yield(); }

void Executor::Resume(int thread) {
  running_ = thread;
  threadIdx = {static_cast<unsigned>(thread), 0, 0};
  threads_[thread]->fiber.Resume();
}

void Executor::Fail(const std::string& what) {
  fault_ = "thread " + std::to_string(running_) + ": " + what;
  throw Fault();
}

void Executor::WaitForBlock() {
  Thread& thread = *threads_[running_];
  if (++at_barrier_ < size_.threads) {
    thread.waits_for = kBarrier;
    Yield();
    return;
  }
  at_barrier_ = 0;
  for (int t = 0; t < size_.threads; ++t) threads_[t]->waits_for = nullptr;
}

const WarpExchange& Executor::MeetWarp(const char* what, const void* in, size_t bytes, void (*combine)(WarpExchange&)) {
  const int first = running_ / 32 * 32, lane = running_ % 32;
  Warp& warp = warps_[running_ / 32];
  if (warp.arrived > 0 && warp.operation != what) {
    Fail(std::string("comes to ") + what + " while lanes of its warp wait in " + warp.operation);
  }
  warp.operation = what;
  WarpExchange& exchange = warp.exchange[warp.operations % 2];
  if (bytes > 0) std::memcpy(exchange.in[lane], in, bytes);
  if (++warp.arrived < 32) {
    threads_[running_]->waits_for = what;
    Yield();
    return exchange;
  }
  if (combine != nullptr) combine(exchange);
  warp.arrived = 0;
  ++warp.operations;
  for (int t = first; t < first + 32; ++t) threads_[t]->waits_for = nullptr;
  return exchange;
}

std::string Executor::WhereThreadsStand() const {
  std::map<std::string, int> standing;
  for (int t = 0; t < size_.threads; ++t) {
    const Thread& thread = *threads_[t];
    ++standing[thread.done ? "have returned" : std::string("wait in ") + thread.waits_for];
  }
  std::string text = "deadlock:";
  for (const auto& [where, count] : standing) text += " " + std::to_string(count) + " threads " + where + ",";
  text.pop_back();
  return text;
}

std::vector<int> Executor::Turns(int count) {
  std::vector<int> turns(count);
  std::iota(turns.begin(), turns.end(), 0);
  if (order == RunOrder::kBackward) std::reverse(turns.begin(), turns.end());
  if (order == RunOrder::kShuffled) std::shuffle(turns.begin(), turns.end(), random_);
  return turns;
}

void Executor::RunBlock() {
  std::fill_n(shared_.get(), size_.shared_bytes, std::byte{0xff});
  at_barrier_ = 0;
  for (Warp& warp : warps_) warp.arrived = 0;
  for (int t = 0; t < size_.threads; ++t) {
    threads_[t]->done = false;
    threads_[t]->waits_for = nullptr;
  }
  const bool ahead = order != RunOrder::kLockstep;
  std::vector<int> warps = Turns(size_.threads / 32);
  const std::vector<int> lanes = Turns(32);
  for (int left = size_.threads; left > 0;) {
    bool any = false;
    for (const int warp : warps) {
      for (bool more = true; more;) {
        more = false;
        for (const int lane : lanes) {
          Thread& thread = *threads_[warp * 32 + lane];
          if (thread.done || thread.waits_for != nullptr) continue;
          any = true;
          more = ahead;
          Resume(warp * 32 + lane);
          if (!fault_.empty()) return;
          if (thread.done) --left;
        }
      }
    }
    if (!any) fault_ = WhereThreadsStand();
    if (!fault_.empty()) return;
    if (order == RunOrder::kShuffled) std::shuffle(warps.begin(), warps.end(), random_);
  }
  for (int t = 0; t < size_.threads; ++t) {
    if (threads_[t]->fiber.overflowed()) fault_ = "thread " + std::to_string(t) + ": stack overflow";
  }
}

const char* Executor::Run(const char* kernel, const GridSize& size, const std::function<void()>& thread) {
  report_.clear();
  fault_.clear();
  size_ = size;
  body_ = &thread;
  const Index3 blocks = size.blocks;
  if (size.threads < 32 || size.threads > 1024 || size.threads % 32 != 0 || blocks.x == 0 || blocks.y == 0 ||
      blocks.z == 0 || blocks.y > 65535 || blocks.z > 65535 || size.shared_bytes > kMaxSharedBytes) {
    report_ = std::string(kernel) + ": no such grid: " + std::to_string(blocks.x) + " x " + std::to_string(blocks.y) +
              " x " + std::to_string(blocks.z) + " blocks of " + std::to_string(size.threads) + " threads and " +
              std::to_string(size.shared_bytes) + " bytes of shared memory";
    return report_.c_str();
  }
  while (static_cast<int>(threads_.size()) < size.threads)
    threads_.push_back(std::make_unique<Thread>(&Executor::RunThreads));
  warps_.resize(size.threads / 32);
  // Of its very size, so that AddressSanitizer sees its end, too.
  shared_ = std::make_unique<std::byte[]>(size.shared_bytes);
  blockDim = {static_cast<unsigned>(size.threads), 1, 1};
  gridDim = blocks;
  const int64_t count = static_cast<int64_t>(blocks.x) * blocks.y * blocks.z;
  for (int64_t i = 0; i < count && fault_.empty(); ++i) {
    const int64_t block = order == RunOrder::kLockstep ? i : count - 1 - i;
    blockIdx = {static_cast<unsigned>(block % blocks.x), static_cast<unsigned>(block / blocks.x % blocks.y),
                static_cast<unsigned>(block / blocks.x / blocks.y)};
    RunBlock();
  }
  if (fault_.empty()) return nullptr;
  // Its threads stand in the middle of things.
  threads_.clear();
  report_ = std::string(kernel) + ": block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
            std::to_string(blockIdx.z) + "): " + fault_;
  return report_.c_str();
}

}  // namespace

void SetRunOrder(RunOrder order) { Current().order = order; }
const char* RunGrid(const char* kernel, const GridSize& size, const std::function<void()>& thread) {
  return Current().Run(kernel, size, thread);
}
void Fail(const std::string& what) { Current().Fail(what); }
void WaitForBlock() { Current().WaitForBlock(); }
const WarpExchange& MeetWarp(const char* what, const void* in, size_t bytes, void (*combine)(WarpExchange&)) {
  return Current().MeetWarp(what, in, bytes, combine);
}
std::byte* SharedBase() { return Current().shared(); }
int64_t SharedSize() { return Current().shared_size(); }

}  // namespace lion::cuda::emulation
