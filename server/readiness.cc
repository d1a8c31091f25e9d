#include "server/readiness.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/log.h"

namespace lion {

bool Readiness::ready() const {
  MutexLock lock(mutex_);
  return serving_ && !device_failed_;
}

void Readiness::SetReady() {
  for (const SharedModel& model : registry_->models()) model->info().metrics->SetReady(serving_ && !device_failed_);
}

void Readiness::Announce(const std::vector<std::string>& names) { rpc_->SetServing(names, false); }

void Readiness::Serve(std::vector<std::unique_ptr<ModelService>> models) {
  std::vector<std::string> services = kServiceNames;
  for (const std::unique_ptr<ModelService>& model : models) services.push_back(model->info().name);
  MutexLock lock(mutex_);
  registry_->Serve(std::move(models));
  rpc_->SetServing(services, true);
  serving_ = true;
  SetReady();
}

bool Readiness::Put(std::unique_ptr<ModelService> model) {
  const std::string name = model->info().name;
  MutexLock lock(mutex_);
  if (!serving_) return false;
  const absl::StatusOr<SharedModel> before = registry_->Find(name);
  if (!registry_->Put(std::move(model))) return false;
  if (before.ok()) (*before)->info().metrics->SetReady(false);
  rpc_->SetServing({name}, true);
  SetReady();
  return true;
}

void Readiness::Remove(const std::string& name) {
  MutexLock lock(mutex_);
  rpc_->SetServing({name}, false);
  const absl::StatusOr<SharedModel> before = registry_->Find(name);
  if (before.ok()) (*before)->info().metrics->SetReady(false);
  registry_->Remove(name);
}

void Readiness::Fail(const std::string& name, const absl::Status& status) {
  LogError(absl::StrCat("the device failed under model ", name, ", NOT_SERVING from now on: ", status.message()));
  std::vector<std::string> failed = kServiceNames;
  failed.push_back(name);
  rpc_->SetFailed(failed);
  MutexLock lock(mutex_);
  device_failed_ = true;
  SetReady();
}

void Readiness::Stop() {
  MutexLock lock(mutex_);
  serving_ = false;
  SetReady();
  rpc_->StopServing();
}

}  // namespace lion
