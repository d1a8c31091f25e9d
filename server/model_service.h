// One served model: validates and prepares inputs, batches them across callers, runs the engine, answers each call
// once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/batcher.h"
#include "server/call_room.h"
#include "server/clock.h"
#include "server/fair_budget.h"
#include "server/inference_call.h"
#include "server/inference_task.h"
#include "server/input_preparer.h"
#include "server/metrics/metrics.h"
#include "server/model_service_options.h"
#include "server/model_statistics.h"
#include "server/prepare_pool.h"
#include "server/thread_pool.h"
#include "server/tokenizer/tokenizer.h"

namespace lion {

// What the service does not need to know of a model, but its callers ask about.
struct ModelInfo {
  std::string name;
  std::string version = "1";
  int64_t parameters = 0;
  std::string weights;                            // the file, and "model" or "ema" where it held both
  ModelMetrics* metrics = &ModelMetrics::None();  // outlives the model
};

// Shared by all models of a process; outlives them. `decode_bytes` is the decoding pool's own.
struct SharedResources {
  Clock* clock = nullptr;
  PreparePool* decode_pool = nullptr;
  FairBudget* decode_bytes = nullptr;  // of all decodes going on at once; an image that needs more is refused
  PreparePool* tokenize_pool = nullptr;
  FairBudget* device_turn = nullptr;  // limit 1: one Forward at a time
  Metrics* metrics = nullptr;         // null: nothing is counted
};

// Owns engine, tokenizer and batcher. Every call that Run accepts ends in exactly one `done`, on the service's reply
// thread or, when there is nothing to compute, on the caller's; never on the engine's. Each input goes its own way
// through preparing pool and batcher, so a call larger than a batch is split, and calls share batches. All methods may
// be called from any thread.
class ModelService {
 public:
  using Done = std::function<void(InferenceReply)>;

  // `tokenizer`: of a text model; null: texts are refused, token ids work. `on_fault` is called once, on the batcher's
  // thread, when the device fails; from then on calls get UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<ModelService>> Create(ModelInfo info, std::unique_ptr<Engine> engine,
                                                              std::unique_ptr<Tokenizer> tokenizer,
                                                              const ModelServiceOptions& options,
                                                              const SharedResources& shared,
                                                              std::function<void(const absl::Status&)> on_fault);
  // Finishes what was accepted.
  ~ModelService();

  // Runs batches of blank inputs through the engine: one of usual size, then twice as many each time, up to the batch
  // budget or until the next would pass `budget_ns` in all or, by itself, `batch_ns`: for so long others who serve wait
  // for the device. To be called before the first Run. `progress` gets a line each, `warning` one when a blank input
  // fails.
  absl::Status WarmUp(int64_t budget_ns, int64_t batch_ns, const std::function<void(const std::string&)>& progress,
                      const std::function<void(const std::string&)>& warning);

  // INVALID_ARGUMENT: none, or more than max_inputs_per_call. For callers that want to know before they prepare a call.
  absl::Status CheckInputCount(int64_t inputs) const;

  // Never blocks. An error is the answer, and `done` is not called: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (see
  // Batcher::Reserve and PreparePool::Submit; also: no room in the call's account), UNAVAILABLE, DEADLINE_EXCEEDED,
  // CANCELLED. OK: `done` is called once, maybe before this returns. `abandoned` may be set by the caller at any time,
  // and is set by the service when a failed input makes the rest pointless: what has not begun to compute is then
  // dropped. Throws std::bad_alloc instead of calling `done` when there is no memory for the call itself.
  absl::Status Run(InferenceCall call, std::shared_ptr<std::atomic<bool>> abandoned, Done done);

  // Refuses new calls from now on.
  void Drain();

  const ModelInfo& info() const { return info_; }
  const Engine& engine() const { return *engine_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }  // null: it has none
  // Tokens being prepared or waiting, and inputs that were dropped without being computed since the start.
  int64_t waiting_tokens() const { return batcher_->reserved_tokens(); }
  int64_t dropped_inputs() const { return dropped_inputs_.load(std::memory_order_relaxed); }
  ModelStatistics& statistics() const { return statistics_; }
  // As settled.
  const ModelServiceOptions& options() const { return options_; }

 private:
  using Task = InferenceTask;

  ModelService(ModelInfo info, std::unique_ptr<Engine> engine, std::unique_ptr<Tokenizer> tokenizer,
               std::unique_ptr<InputPreparer> preparer, const ModelServiceOptions& options,
               const SharedResources& shared, std::function<void(const absl::Status&)> on_fault);

  // A task for each input, null for a bad one that fails itself alone. Or why the call is refused.
  absl::Status MakeTasks(const std::shared_ptr<CallInProgress>& call, std::vector<std::unique_ptr<Task>>* tasks);
  // Refuses a reply that is too large in itself, or for which the call's account has no room.
  absl::Status ChargeReply(const InferenceCall& call, const std::vector<std::unique_ptr<Task>>& tasks) const;
  absl::StatusOr<std::shared_ptr<CallRoom>> Reserve(const std::vector<std::unique_ptr<Task>>& tasks);
  // OK, or why the call should not be worked on any more.
  absl::Status StillWanted(const CallInProgress& call) const;
  // An input that is to be prepared, and its room.
  struct Preparing {
    std::unique_ptr<Task> task;
    CallRoom::Claim claim;
  };
  PrepareJob MakePrepareJob(std::unique_ptr<Task> task, CallRoom::Claim claim);
  // On a thread of the preparing pool. After std::bad_alloc the task is still there, and not ended.
  void Prepare(const std::shared_ptr<Preparing>& input);
  // RESOURCE_EXHAUSTED when it has no memory: the device is still there. Any other error: it is lost.
  absl::Status Forward(const std::vector<Request>& requests, std::vector<Result>* results);
  Batcher::Entry MakeEntry(std::unique_ptr<Task> task, Batcher::Reservation reservation) const;
  // Drops them when there is no memory.
  void Queue(std::vector<Batcher::Entry> entries);
  // On the batcher's thread. The tasks are dropped when there is no memory to run them.
  void RunBatch(Batch batch);
  struct FinishedBatch;
  // After std::bad_alloc the tasks are still in the batch.
  std::shared_ptr<FinishedBatch> Compute(Batch* batch);

  const ModelInfo info_;
  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::unique_ptr<InputPreparer> preparer_;
  const ModelServiceOptions options_;
  const SharedResources shared_;
  const std::function<void(const absl::Status&)> on_fault_;
  mutable ModelStatistics statistics_;
  std::atomic<bool> device_lost_ = false;
  std::atomic<int64_t> dropped_inputs_ = 0;
  ThreadPool reply_pool_;
  std::unique_ptr<Batcher> batcher_;
};

}  // namespace lion
