// One input of a call on its way through the preparing pool, the batcher and the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "server/batcher.h"
#include "server/inference_call.h"
#include "server/input_preparer.h"
#include "server/metrics/metrics.h"
#include "server/thread_pool.h"

namespace lion {

// For one thread at a time. Ends in one Finish or Drop, after which the call may be done and gone; or in neither, if it
// was never accepted.
class InferenceTask : public BatchTask {
 public:
  // Where tasks end; outlives them.
  struct Home {
    ThreadPool* reply_pool = nullptr;
    std::atomic<int64_t>* dropped_inputs = nullptr;
    ModelMetrics* metrics = &ModelMetrics::None();
  };

  InferenceTask(const Home& home, std::shared_ptr<CallInProgress> call, size_t index, int64_t now_ns)
      : home_(home), call_(std::move(call)), index_(index), waits_since_ns_(now_ns) {}

  // On the reply pool, as a call's `done` may be long; here if there is no memory to get there.
  void Drop(const absl::Status& why) override {
    home_.dropped_inputs->fetch_add(1, std::memory_order_relaxed);
    LeaveQueue();
    CountRejected(why);
    try {
      home_.reply_pool->Submit(
          [call = call_, index = index_, why, took = timing] { call->Finish(index, why, Result(), took); });
    } catch (const std::bad_alloc&) {
      call_->Finish(index_, why, Result(), timing);
    }
  }

  // With what the engine computed; `device` is not OK if it could not.
  void Finish(const absl::Status& device, Result result) {
    if (device.ok()) {
      home_.metrics->ObserveInput(timing.preprocess_ns, timing.queue_ns);
    } else {
      CountRejected(device);
    }
    if (absl::IsInternal(result.status)) home_.metrics->CountNonFinite();
    absl::Status status = device.ok() ? result.status : device;
    call_->Finish(index_, std::move(status), std::move(result), timing);
  }

  // Takes the engine's input and tells the reply what there is to tell of it.
  void SetPrepared(PreparedInput prepared) {
    prepared_ = std::move(prepared);
    InputReply& reply = call_->results[index_];
    reply.tokens = prepared_.tokens;
    reply.truncated = prepared_.encoding.truncated;
    reply.masked = std::move(prepared_.masked);
    if (call_->request.encoding) reply.encoding = std::move(prepared_.encoding);
  }

  // Around the wait for a batch; Drop leaves, too.
  void EnterQueue() {
    queued_ = true;
    home_.metrics->AddQueued(1);
  }
  void LeaveQueue() {
    if (std::exchange(queued_, false)) home_.metrics->AddQueued(-1);
  }

  // Points into this task and its call.
  Request MakeRequest() const {
    const InferenceCall& call = call_->request;
    return {.image = prepared_.image,
            .text = prepared_.text(),
            .embedding = call.embedding,
            .pooling = call.pooling,
            .logits = call.logits,
            .masked = call_->results[index_].masked,
            .predictions = call.predictions};
  }

  // The time since the last call, or since the beginning.
  int64_t Lap(int64_t now_ns) { return now_ns - std::exchange(waits_since_ns_, now_ns); }

  CallInProgress& call() { return *call_; }
  const InferenceInput& input() const { return call_->request.inputs[index_]; }

  InputCost cost;
  CallTiming timing;

 private:
  // That an input went the way of its call's bad one is no rejection of its own.
  void CountRejected(const absl::Status& why) const {
    const std::optional<RejectReason> reason = RejectReasonOf(why.code());
    if (!reason || (*reason == RejectReason::kCancelled && call_->abandoned_by_service())) return;
    home_.metrics->CountRejected(*reason, 1);
  }

  const Home home_;
  const std::shared_ptr<CallInProgress> call_;
  const size_t index_;
  int64_t waits_since_ns_;
  PreparedInput prepared_;
  bool queued_ = false;
};

}  // namespace lion
