// The batcher at queue depths from 1 to 4096: taking work in, planning a batch, emptying the queue. No speed is printed
// where a task did not run exactly once. See benchmarks/README.md.
#include "server/batcher.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "server/mutex.h"

namespace lion {
namespace {

constexpr int64_t kTokens = 197;  // of each task: a 224 x 224 image
constexpr int64_t kMaxDepth = 4096;

bool all_right = true;

void Refuse(benchmark::State& state, const std::string& why) {
  all_right = false;
  state.SkipWithError(("no speed: " + why).c_str());
}

// Counts how often each task ran, and holds the batcher's thread back when told.
class Device {
 public:
  class Task : public BatchTask {
   public:
    Task(Device& device, size_t number) : device_(device), number_(number) {}
    void Drop(const absl::Status&) override { device_.dropped_ = true; }
    size_t number() const { return number_; }

   private:
    Device& device_;
    const size_t number_;
  };

  void Run(const Batch& batch) {
    MutexLock lock(mutex_);
    holding_ = held_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    holding_ = false;
    for (const auto& task : batch.tasks) ++ran_[static_cast<const Task&>(*task).number()];
    left_ -= batch.tasks.size();
    changed_.NotifyAll();
  }

  // From now on batches wait; numbers 0 to tasks - 1 are expected.
  void Hold(size_t tasks) {
    MutexLock lock(mutex_);
    held_ = true;
    left_ = tasks;
    ran_.assign(tasks, 0);
  }
  void AwaitHolding() {
    MutexLock lock(mutex_);
    while (!holding_) changed_.Wait(mutex_);
  }
  void ReleaseAndAwaitAll() {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
    while (left_ > 0) changed_.Wait(mutex_);
  }
  bool EachRanOnce() {
    MutexLock lock(mutex_);
    return !dropped_ && std::all_of(ran_.begin(), ran_.end(), [](int times) { return times == 1; });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int> ran_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> dropped_{false};
};

class Queue {
 public:
  Queue() {
    BatcherOptions options;
    options.max_queue_tokens = (kMaxDepth + 1) * kTokens;
    batcher_ = Batcher::Create(options, &clock_, nullptr, [this](const Batch& batch) { device_.Run(batch); }).value();
  }

  // The device is busy with task 0 until Empty.
  void Occupy(int64_t depth) {
    device_.Hold(static_cast<size_t>(depth) + 1);
    Submit(0, 0);
    device_.AwaitHolding();
  }
  // Tasks 1 to depth, one call each, of `callers` callers in turn.
  void Fill(int64_t depth, int64_t callers) {
    for (int64_t i = 1; i <= depth; ++i) Submit(static_cast<size_t>(i), static_cast<uint64_t>(i % callers));
  }
  void Empty() { device_.ReleaseAndAwaitAll(); }
  bool EachRanOnce() {
    // The last batch's account is closed a moment after it ran.
    return batcher_->WaitIdle(kNever) && device_.EachRanOnce();
  }

 private:
  void Submit(size_t number, uint64_t caller) {
    Batcher::Entry entry;
    entry.reservation = batcher_->Reserve(kTokens).value();
    entry.caller = caller;
    entry.task = std::make_unique<Device::Task>(device_, number);
    std::vector<Batcher::Entry> entries;
    entries.push_back(std::move(entry));
    batcher_->Submit(std::move(entries));
  }

  SteadyClock clock_;
  Device device_;
  std::unique_ptr<Batcher> batcher_;  // last: its thread uses the others
};

enum class Timed : uint8_t { kFill, kEmpty };

void FillAndEmpty(benchmark::State& state, Timed timed) {
  const int64_t depth = state.range(0), callers = state.range(1);
  Queue queue;
  for (auto iteration : state) {
    queue.Occupy(depth);
    const auto begin = std::chrono::steady_clock::now();
    queue.Fill(depth, callers);
    const auto full = std::chrono::steady_clock::now();
    queue.Empty();
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double> took = timed == Timed::kFill ? full - begin : end - full;
    state.SetIterationTime(took.count());
    if (!queue.EachRanOnce()) return Refuse(state, "not every task ran exactly once");
  }
  state.SetItemsProcessed(state.iterations() * depth);
}

// A queue filled one call after the other, up to the depth; per task.
void Submit(benchmark::State& state) { FillAndEmpty(state, Timed::kFill); }
// The same queue emptied by a device that takes no time: batches planned, formed and handed over; per task.
void Empty(benchmark::State& state) { FillAndEmpty(state, Timed::kEmpty); }

// The policy alone.
void Plan(benchmark::State& state) {
  const int64_t depth = state.range(0);
  const BatchLimits limits;
  FairOrder order(limits.priority_step_tokens);
  std::vector<QueuedTask> queue;
  for (int64_t i = 0; i < depth; ++i) {
    queue.push_back({.tokens = kTokens, .place = order.Enter(static_cast<uint64_t>(i % 16), kTokens, 0)});
  }
  std::stable_sort(queue.begin(), queue.end(), RunsBefore);
  const int64_t want = std::min(depth, limits.max_tokens / kTokens);
  for (auto iteration : state) {
    const BatchPlan plan = PlanBatch(queue, 0, false, limits);
    const auto runs = std::count(plan.verdicts.begin(), plan.verdicts.begin() + want, Verdict::kRuns);
    if (plan.inputs != want || runs != want) return Refuse(state, "the plan is not the first tasks of the queue");
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(Submit)
    ->ArgNames({"depth", "callers"})
    ->ArgsProduct({{1, 16, 256, kMaxDepth}, {1, 16}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(Empty)
    ->ArgNames({"depth", "callers"})
    ->ArgsProduct({{1, 16, 256, kMaxDepth}, {1, 16}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(Plan)->ArgName("depth")->RangeMultiplier(8)->Range(1, kMaxDepth);

}  // namespace
}  // namespace lion

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const size_t ran = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return lion::all_right && ran > 0 ? 0 : 1;
}
