#include "server/model_statistics.h"

#include <chrono>

namespace lion {

void ModelStatistics::CountSuccess(const CallTiming& timing, int64_t output_ns, int64_t total_ns) {
  MutexLock lock(mutex_);
  sums_.success.Add(total_ns);
  sums_.queue.Add(timing.queue_ns);
  sums_.compute_input.Add(timing.preprocess_ns);
  sums_.compute_infer.Add(timing.compute_ns);
  sums_.compute_output.Add(output_ns);
}

void ModelStatistics::CountFailure(int64_t total_ns) {
  MutexLock lock(mutex_);
  sums_.fail.Add(total_ns);
}

void ModelStatistics::CountBatch(int64_t inputs, int64_t preprocess_ns, int64_t compute_ns) {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  MutexLock lock(mutex_);
  sums_.inputs += inputs;
  ++sums_.batches;
  sums_.last_batch_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
  BatchSums& of_size = sums_.by_size[inputs];
  of_size.compute_input.Add(preprocess_ns);
  of_size.compute_infer.Add(compute_ns);
}

}  // namespace lion
