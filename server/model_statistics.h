// Sums of what one version of a model has done, for those who ask over gRPC; Metrics has the distributions.
#pragma once

#include <cstdint>
#include <map>

#include "server/inference_call.h"
#include "server/mutex.h"

namespace lion {

// All methods may be called from any thread.
class ModelStatistics {
 public:
  struct Duration {
    int64_t count = 0;
    int64_t ns = 0;
    void Add(int64_t more_ns) {
      ++count;
      ns += more_ns;
    }
  };
  struct BatchSums {
    Duration compute_input;  // ns: of all inputs of a batch together
    Duration compute_infer;
  };
  struct Sums {
    // Of requests that the model computed; queue + compute_... <= success, in ns.
    Duration success;         // from arrival to answer
    Duration queue;           // waiting for a thread that prepares and for a batch
    Duration compute_input;   // preparing
    Duration compute_infer;   // the forward pass of the batch
    Duration compute_output;  // making the response
    Duration fail;            // of requests that were well formed, from arrival to error
    int64_t inputs = 0;       // computed
    int64_t batches = 0;
    int64_t last_batch_ms = 0;             // since the epoch; 0: none yet
    std::map<int64_t, BatchSums> by_size;  // by the number of a batch's inputs
  };

  void CountSuccess(const CallTiming& timing, int64_t output_ns, int64_t total_ns);
  void CountFailure(int64_t total_ns);
  // `preprocess_ns`: of all its inputs.
  void CountBatch(int64_t inputs, int64_t preprocess_ns, int64_t compute_ns);

  Sums sums() const {
    MutexLock lock(mutex_);
    return sums_;
  }

 private:
  mutable Mutex mutex_;
  Sums sums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lion
