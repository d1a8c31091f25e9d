#include "server/rpc/inference/repository_calls.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/mutex.h"
#include "server/rpc/status.h"
#include "server/utf8.h"

namespace lion {
namespace {

class ChangeReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit ChangeReactor(grpc::CallbackServerContext* context) : call_(std::make_shared<Call>()) {
    MutexLock lock(call_->mutex);
    call_->reactor = this;
    call_->context = context;
  }

  // May outlive the reactor.
  ModelControl::Done MakeDone() const {
    return [call = call_](const absl::Status& status) { call->End(status); };
  }

  void OnCancel() override { call_->End(absl::CancelledError("cancelled by the caller")); }
  void OnDone() override { delete this; }

 private:
  struct Call {
    void End(const absl::Status& status) {
      MutexLock lock(mutex);
      if (ChangeReactor* const open = std::exchange(reactor, nullptr)) open->Finish(FinalStatus(status, context));
    }
    Mutex mutex;
    ChangeReactor* reactor ABSL_GUARDED_BY(mutex) = nullptr;  // null: it has ended
    grpc::CallbackServerContext* context ABSL_GUARDED_BY(mutex) = nullptr;
  };
  const std::shared_ptr<Call> call_;
};

}  // namespace

inference::RepositoryIndexResponse DescribeRepository(const ModelControl& control,
                                                      const std::function<bool(const std::string&)>& is_serving,
                                                      bool only_ready) {
  inference::RepositoryIndexResponse response;
  for (const ModelControl::ModelState& model : control.Index()) {
    const bool ready = !model.version.empty() && is_serving(model.name);
    if (only_ready && !ready) continue;
    auto* const index = response.add_models();
    index->set_name(model.name);
    index->set_version(model.version);
    index->set_state(ready ? "READY" : "UNAVAILABLE");
    if (!model.failure.empty()) {
      index->set_reason(model.failure);
    } else if (!ready) {
      index->set_reason(model.version.empty() ? "not loaded" : "not serving");
    }
  }
  return response;
}

std::string NameOfModel(const std::string& repository_name, const std::string& model_name) {
  return model_name.empty() ? repository_name : model_name;
}

absl::Status CheckLoad(const inference::RepositoryModelLoadRequest& request) {
  for (const auto& [name, value] : request.parameters()) {
    if (name != "config" && !absl::StartsWith(name, "file:")) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", CutUtf8(name, 100), "': a model is loaded from its folder, as it is there"));
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* ChangeRepository(grpc::CallbackServerContext* context, ModelControl* control, bool load,
                                           const std::string& name) {
  auto* const reactor = new ChangeReactor(context);
  load ? control->Load(name, reactor->MakeDone()) : control->Unload(name, reactor->MakeDone());
  return reactor;
}

}  // namespace lion
