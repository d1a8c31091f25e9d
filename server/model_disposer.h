// Where models end once nobody uses them any more.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "server/model_service.h"
#include "server/mutex.h"

namespace lion {

// Whoever holds one may use the model; the last to let go frees it, on any thread, without waiting.
using SharedModel = std::shared_ptr<ModelService>;

// Destroys models on a thread of its own: a destructor waits for the model's threads, and the last user of a model may
// be one of these, or a thread of gRPC's. All methods may be called from any thread.
class ModelDisposer {
 public:
  // `destroyed` is called on the disposer's thread when a model's memory and threads are given back; may be empty.
  // Throws std::system_error when the thread cannot be started.
  explicit ModelDisposer(std::function<void(const ModelInfo&)> destroyed);
  // Waits until the last user of each shared model has let go and all are destroyed.
  ~ModelDisposer();

  // The disposer outlives the model.
  SharedModel Share(std::unique_ptr<ModelService> model);

 private:
  // A place in the list that is made together with the share, so that letting go needs no memory.
  struct Place {
    std::unique_ptr<ModelService> model;
    Place* next = nullptr;
  };

  void Retire(Place* place);
  // Null: there will be none.
  Place* Next();
  void Loop();

  const std::function<void(const ModelInfo&)> destroyed_;
  Mutex mutex_;
  CondVar changed_;
  Place* retired_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int shared_ ABSL_GUARDED_BY(mutex_) = 0;  // not retired yet
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lion
