// A batcher over a puppet device, with the clock in the test's hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "server/batcher.h"
#include "tests/server/fake_clock.h"

namespace lion {

// What became of the tasks, in order, and a gate that holds batches back.
class Puppet {
 public:
  void Run(const std::vector<int>& batch, FakeClock& clock, int64_t takes_ns) {
    MutexLock lock(mutex_);
    ++running_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    if (takes_ns > 0) clock.AdvanceTo(clock.NowNs() + takes_ns);
    batches_.push_back(batch);
    changed_.NotifyAll();
  }
  void Drop(int id, const absl::Status& why) {
    MutexLock lock(mutex_);
    dropped_.push_back({id, why});
    changed_.NotifyAll();
  }
  void Hold(bool held) {
    MutexLock lock(mutex_);
    held_ = held;
    changed_.NotifyAll();
  }
  void AwaitRunning(int batches) {
    MutexLock lock(mutex_);
    while (running_ < batches) changed_.Wait(mutex_);
  }
  std::vector<std::vector<int>> batches() {
    MutexLock lock(mutex_);
    return batches_;
  }
  std::vector<std::pair<int, absl::Status>> dropped() {
    MutexLock lock(mutex_);
    return dropped_;
  }
  void AwaitDropped(size_t count) {
    MutexLock lock(mutex_);
    while (dropped_.size() < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::vector<int>> batches_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int, absl::Status>> dropped_ ABSL_GUARDED_BY(mutex_);
};

class NumberedTask : public BatchTask {
 public:
  NumberedTask(Puppet* puppet, int number) : puppet_(puppet), number_(number) {}
  void Drop(const absl::Status& why) override { puppet_->Drop(number_, why); }
  int number() const { return number_; }

 private:
  Puppet* const puppet_;
  const int number_;
};

class BatcherTest : public ::testing::Test {
 protected:
  void Start(const BatcherOptions& options, int64_t batch_takes_ns = 0) {
    absl::StatusOr<std::unique_ptr<Batcher>> batcher =
        Batcher::Create(options, &clock_, &turn_, [this, batch_takes_ns](Batch batch) {
          std::vector<int> numbers;
          for (const auto& task : batch.tasks) numbers.push_back(static_cast<NumberedTask&>(*task).number());
          puppet_.Run(numbers, clock_, batch_takes_ns);
        });
    ASSERT_TRUE(batcher.ok()) << batcher.status();
    batcher_ = *std::move(batcher);
  }

  Batcher::Entry Entry(int number, int64_t tokens) {
    absl::StatusOr<Batcher::Reservation> room = batcher_->Reserve(tokens);
    EXPECT_TRUE(room.ok()) << room.status();
    Batcher::Entry entry;
    entry.reservation = *std::move(room);
    entry.task = std::make_unique<NumberedTask>(&puppet_, number);
    return entry;
  }
  void Submit(Batcher::Entry entry) {
    std::vector<Batcher::Entry> entries;
    entries.push_back(std::move(entry));
    batcher_->Submit(std::move(entries));
  }
  // Occupies the device with task `number`, so that what follows has to wait.
  void Occupy(int number) {
    puppet_.Hold(true);
    Submit(Entry(number, 1));
    puppet_.AwaitRunning(1);
  }
  void Finish() {
    puppet_.Hold(false);
    batcher_->Drain();
    ASSERT_TRUE(batcher_->WaitIdle(kNever));
  }

  static constexpr BatcherOptions kOptions = {.limits = {.max_tokens = 10}, .max_queue_tokens = 100};

  FakeClock clock_;
  FairBudget turn_{1};
  Puppet puppet_;
  std::unique_ptr<Batcher> batcher_;
};

}  // namespace lion
