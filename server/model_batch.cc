#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/model_service.h"
#include "server/pushback.h"

namespace lion {

absl::Status ModelService::Forward(const std::vector<Request>& requests, std::vector<Result>* results) try {
  results->clear();
  results->resize(requests.size());
  return engine_->Forward(requests, std::span<Result>(*results));
} catch (const std::bad_alloc&) {
  return TryAgainIn(kUnknownPushbackMs, "no memory for the forward pass");
} catch (const std::exception& error) {
  return absl::InternalError(absl::StrCat("the engine threw: ", error.what()));
}

struct ModelService::FinishedBatch {
  std::vector<std::unique_ptr<BatchTask>> tasks;
  std::vector<Result> results;
  absl::Status device;
  int64_t tokens = 0;
  int64_t preprocess_ns = 0;  // of all inputs
  int64_t compute_ns = 0;

  void Answer() {
    const auto inputs = static_cast<int64_t>(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      auto& task = static_cast<Task&>(*tasks[i]);
      task.timing.compute_ns = compute_ns;
      task.timing.batch_inputs = inputs;
      task.timing.batch_tokens = tokens;
      // After an error there may be no results.
      task.Finish(device, device.ok() ? std::move(results[i]) : Result());
      tasks[i].reset();
    }
  }
};

std::shared_ptr<ModelService::FinishedBatch> ModelService::Compute(Batch* batch) {
  auto finished = std::make_shared<FinishedBatch>();
  std::vector<Request> requests;
  requests.reserve(batch->tasks.size());
  for (const std::unique_ptr<BatchTask>& task : batch->tasks) {
    auto& input = static_cast<Task&>(*task);
    input.LeaveQueue();
    input.timing.queue_ns += input.Lap(batch->formed_ns);
    finished->preprocess_ns += input.timing.preprocess_ns;
    requests.push_back(input.MakeRequest());
  }
  const int64_t start_ns = shared_.clock->NowNs();
  finished->device = device_lost_.load(std::memory_order_relaxed) ? absl::UnavailableError("an earlier batch")
                                                                  : Forward(requests, &finished->results);
  finished->compute_ns = shared_.clock->NowNs() - start_ns;
  if (!finished->device.ok() && !absl::IsResourceExhausted(finished->device)) {
    if (!device_lost_.exchange(true)) on_fault_(finished->device);
    finished->device = absl::UnavailableError(absl::StrCat("the device is lost: ", finished->device.message()));
  }
  finished->tokens = batch->tokens;
  finished->tasks = std::move(batch->tasks);
  return finished;
}

void ModelService::RunBatch(Batch batch) {
  std::shared_ptr<FinishedBatch> finished;
  try {
    finished = Compute(&batch);
  } catch (const std::bad_alloc&) {
    const absl::Status why = TryAgainIn(kUnknownPushbackMs, "no memory to run the batch");
    for (const std::unique_ptr<BatchTask>& task : batch.tasks) task->Drop(why);
    return;
  }
  if (finished->device.ok()) {
    statistics_.CountBatch(static_cast<int64_t>(finished->tasks.size()), finished->preprocess_ns, finished->compute_ns);
    info_.metrics->ObserveBatch(static_cast<int64_t>(finished->tasks.size()), finished->tokens, finished->compute_ns);
  }
  try {
    reply_pool_.Submit([finished] { finished->Answer(); });
  } catch (const std::bad_alloc&) {
    finished->Answer();
  }
}

}  // namespace lion
