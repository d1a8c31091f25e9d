// What health checks and lion_model_ready say of the models, and what changes it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/model_registry.h"
#include "server/mutex.h"
#include "server/rpc/rpc_server.h"

namespace lion {

// Keeps registry, health and metrics of one mind: a model is found before it is SERVING, and NOT_SERVING before it is
// found no more. Outlived by what it is made of. All methods may be called from any thread.
class Readiness {
 public:
  Readiness(ModelRegistry* registry, RpcServer* rpc) : registry_(registry), rpc_(rpc) {}

  // The server as a whole.
  bool ready() const;

  // Names whose health is NOT_SERVING until they serve.
  void Announce(const std::vector<std::string>& names);
  // All at once: calls are let in.
  void Serve(std::vector<std::unique_ptr<ModelService>> models);
  // In place of the one of its name, whose health stays SERVING. False: draining; the model is destroyed.
  bool Put(std::unique_ptr<ModelService> model);
  void Remove(const std::string& name);
  // The device failed under that model: NOT_SERVING for good, its health and the server's.
  void Fail(const std::string& name, const absl::Status& status);
  // NOT_SERVING for good; calls are still let in.
  void Stop();

 private:
  void SetReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ModelRegistry* const registry_;
  RpcServer* const rpc_;
  mutable Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool device_failed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lion
