// The served models by name, and whether calls are let in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/model_disposer.h"
#include "server/model_service.h"
#include "server/mutex.h"

namespace lion {

// Starting, then serving, then draining: never back. Models come and go meanwhile; one that was replaced or removed
// lives as long as somebody uses it. All methods may be called from any thread.
class ModelRegistry {
 public:
  // One call inside the server. The registry outlives it.
  class Admission {
   public:
    Admission() = default;
    Admission(Admission&& other) noexcept : registry_(std::exchange(other.registry_, nullptr)) {}
    Admission& operator=(Admission&& other) noexcept {
      std::swap(registry_, other.registry_);
      return *this;
    }
    ~Admission() {
      if (registry_ != nullptr) registry_->Leave();
    }

   private:
    friend class ModelRegistry;
    explicit Admission(ModelRegistry* registry) : registry_(registry) {}
    ModelRegistry* registry_ = nullptr;
  };

  // `destroyed`: as of ModelDisposer.
  explicit ModelRegistry(Clock* clock, std::function<void(const ModelInfo&)> destroyed = {})
      : clock_(clock), disposer_(std::move(destroyed)) {}

  // UNAVAILABLE unless serving.
  absl::StatusOr<Admission> Enter();

  // Lets calls in. Once; names are unique.
  void Serve(std::vector<std::unique_ptr<ModelService>> models);
  // From now on calls that name it find this one, in place of the one before; those inside are finished by the one that
  // they began on. False, and the model is destroyed: not serving.
  bool Put(std::unique_ptr<ModelService> model);
  // From now on it is not found; calls inside are finished. False: there was none.
  bool Remove(std::string_view name);
  // Lets no more calls in. Those inside are finished.
  void Drain();
  // True once all calls have left; false when `deadline_ns` comes first.
  bool WaitEmpty(int64_t deadline_ns);
  // After Drain: waits until no call was refused for `quiet_ns`, or until `deadline_ns`: callers have then found
  // another server. (gRPC itself answers CANCELLED, which looks final, to what arrives while it shuts down.)
  void WaitQuiet(int64_t quiet_ns, int64_t deadline_ns);

  // Only for callers that hold an Admission. An empty name means the only model; INVALID_ARGUMENT if there are several.
  // NOT_FOUND lists the names.
  absl::StatusOr<SharedModel> Find(std::string_view name) const;
  // Sorted by name.
  std::vector<SharedModel> models() const;

 private:
  enum class State { kStarting, kServing, kDraining };

  void Leave();

  Clock* const clock_;
  ModelDisposer disposer_;  // the last to go
  mutable Mutex mutex_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_refusal_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // while draining; its beginning counts as one
  std::map<std::string, SharedModel, std::less<>> models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lion
