#include "server/model_registry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/utf8.h"

namespace lion {

absl::StatusOr<ModelRegistry::Admission> ModelRegistry::Enter() {
  MutexLock lock(mutex_);
  switch (state_) {
    case State::kStarting:
      return absl::UnavailableError("the server is starting");
    case State::kDraining:
      last_refusal_ns_ = clock_->NowNs();
      return absl::UnavailableError("the server is shutting down");
    case State::kServing:
      break;
  }
  ++calls_;
  return Admission(this);
}

void ModelRegistry::Leave() {
  MutexLock lock(mutex_);
  if (--calls_ == 0) changed_.NotifyAll();
}

void ModelRegistry::Serve(std::vector<std::unique_ptr<ModelService>> models) {
  MutexLock lock(mutex_);
  for (std::unique_ptr<ModelService>& model : models) {
    std::string name = model->info().name;
    models_.emplace(std::move(name), disposer_.Share(std::move(model)));
  }
  if (state_ == State::kStarting) state_ = State::kServing;
}

bool ModelRegistry::Put(std::unique_ptr<ModelService> model) {
  const std::string name = model->info().name;
  SharedModel shared = disposer_.Share(std::move(model));
  MutexLock lock(mutex_);
  if (state_ != State::kServing) return false;
  models_[name].swap(shared);
  return true;
}

bool ModelRegistry::Remove(std::string_view name) {
  MutexLock lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) return false;
  models_.erase(found);
  return true;
}

void ModelRegistry::Drain() {
  MutexLock lock(mutex_);
  state_ = State::kDraining;
  last_refusal_ns_ = clock_->NowNs();
  for (const auto& [name, model] : models_) model->Drain();
}

bool ModelRegistry::WaitEmpty(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (calls_ > 0) {
    if (clock_->NowNs() >= deadline_ns) return false;
    clock_->WaitUntil(changed_, mutex_, deadline_ns);
  }
  return true;
}

void ModelRegistry::WaitQuiet(int64_t quiet_ns, int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (true) {
    const int64_t until_ns = std::min(last_refusal_ns_ + quiet_ns, deadline_ns);
    if (clock_->NowNs() >= until_ns) return;
    clock_->WaitUntil(changed_, mutex_, until_ns);
  }
}

absl::StatusOr<SharedModel> ModelRegistry::Find(std::string_view name) const {
  MutexLock lock(mutex_);
  if (name.empty() && models_.size() == 1) return models_.begin()->second;
  if (const auto found = models_.find(name); found != models_.end()) return found->second;
  if (models_.empty()) return absl::NotFoundError("the server has no models");
  const std::string names = absl::StrJoin(
      models_, ", ", [](std::string* out, const auto& model) { absl::StrAppend(out, "'", model.first, "'"); });
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model is empty, but the server has several: ", names));
  }
  // As much of an unknown name as a reader needs to see what went wrong.
  constexpr size_t kShownBytes = 100;
  return absl::NotFoundError(
      absl::StrCat("no model of the name '", CutUtf8(name, kShownBytes), "'; there is: ", names));
}

std::vector<SharedModel> ModelRegistry::models() const {
  MutexLock lock(mutex_);
  std::vector<SharedModel> models;
  models.reserve(models_.size());
  for (const auto& [name, model] : models_) models.push_back(model);
  return models;
}

}  // namespace lion
