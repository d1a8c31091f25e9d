// What the files ask for, and doing it: the part of ModelControl that runs on its thread alone.
#include <algorithm>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/log.h"
#include "server/model_control.h"

namespace lion {

bool ModelControl::ListInto(std::map<std::string, std::string>* listed) {
  if (options_.repository.empty()) return true;
  absl::StatusOr<RepositoryListing> listing = ListRepository(options_.repository);
  if (!listing.ok()) {
    Warn({absl::StrCat(listing.status().message(), ": its models stay as they are")});
    return false;
  }
  for (const ModelSpec& model : listing->models) {
    const auto is_given = [&model](const ModelSpec& given) { return given.name == model.name; };
    if (std::any_of(options_.models.begin(), options_.models.end(), is_given)) {
      listing->warnings.push_back(absl::StrCat(model.path, " is not served: '", model.name, "' is given by --model"));
      continue;
    }
    (*listed)[model.name] = model.path;
  }
  Warn(listing->warnings);
  return true;
}

void ModelControl::Look(Which which) {
  std::map<std::string, std::string> listed;
  if (which == Which::kAll) warned_.clear();
  const bool readable = ListInto(&listed);
  std::vector<std::pair<std::string, std::string>> models;  // name, files
  {
    MutexLock lock(mutex_);
    last_look_ns_ = clock_->NowNs();
    for (const auto& [name, path] : listed) {
      Entry& entry = entries_[name];
      entry.spec = {name, path};
      entry.from_repository = true;
    }
    for (const auto& [name, entry] : entries_) {
      if (entry.from_repository && !readable) continue;
      const bool gone = entry.from_repository && listed.count(name) == 0;
      models.emplace_back(name, gone ? "" : entry.spec.path);
    }
  }
  if (which == Which::kListed) return;
  for (auto& [name, path] : models) {
    if (stopping()) return;
    LookAt(name, path.empty() ? "" : LookAtFiles(path), which);
  }
}

void ModelControl::LookAt(const std::string& name, const std::string& files, Which which) {
  bool gone = false, served = false;
  {
    MutexLock lock(mutex_);
    Entry& entry = entries_.at(name);
    gone = files.empty() && entry.from_repository;
    served = entry.version > 0;
    const bool settled = entry.watch.Look(files);
    if (which == Which::kChanged && !settled) return;
    // A broken version that was taken away again leaves nothing to do.
    const bool serves_these = served && which == Which::kChanged && files == entry.served_files;
    if ((entry.unloaded || serves_these) && !gone) {
      entry.watch.Tried(files);
      return;
    }
    if (gone && !served) entries_.erase(name);
  }
  if (!gone) {
    LoadOne(name, files).IgnoreError();
  } else if (served) {
    RemoveOne(name, absl::StrCat("its folder in ", options_.repository, " is gone"));
    MutexLock lock(mutex_);
    entries_.erase(name);
  }
}

absl::StatusOr<std::unique_ptr<ModelService>> ModelControl::LoadService(const ModelControlActions::Load& load) const {
  try {
    return actions_.load(load);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat("model ", load.spec.name, ": no memory for it"));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("model ", load.spec.name, ": cannot start its threads: ", error.what()));
  }
}

absl::Status ModelControl::LoadOne(const std::string& name, const std::string& files) {
  ModelControlActions::Load load;
  int64_t before = 0;
  {
    MutexLock lock(mutex_);
    Entry& entry = entries_.at(name);
    before = entry.version;
    load = {.spec = entry.spec, .cancelled = &stopping_};
    load.models = before > 0 ? 0 : 1;
    for (const auto& [other, served] : entries_) load.models += served.version > 0 ? 1 : 0;
    entry.watch.Tried(files);
  }
  const int64_t version = last_versions_[name] + 1;
  load.version = absl::StrCat(version);
  absl::StatusOr<std::unique_ptr<ModelService>> model = LoadService(load);
  absl::Status status = model.status();
  const std::string files_now = LookAtFiles(load.spec.path);
  if (files_now != files && !stopping()) {
    status = absl::AbortedError(absl::StrCat("model ", name, ": ", load.spec.path,
                                             " changed while it was read; it is tried again once it is still",
                                             status.ok() ? "" : absl::StrCat(" (", status.message(), ")")));
  }
  if (stopping()) status = absl::UnavailableError("the server is shutting down");
  if (!status.ok()) {
    if (model.ok()) model->reset();
    metrics_->Forget(name, load.version);
  } else if (!actions_.put(*std::move(model))) {
    status = absl::UnavailableError("the server is shutting down");
  }
  if (absl::IsUnavailable(status) && stopping()) return status;
  if (status.ok()) {
    last_versions_[name] = version;
    metrics_->TrackReloads(name, true);
    LogInfo(before > 0 ? absl::StrCat("model ", name, ": version ", version, " from ", load.spec.path,
                                      " serves in place of version ", before)
                       : absl::StrCat("model ", name, ": version ", version, " from ", load.spec.path, " serves"));
  } else {
    LogError(absl::StrCat(status.message(),
                          before > 0 ? absl::StrCat(": version ", before, " goes on serving") : ": it is not served"));
  }
  metrics_->CountReload(name, status.ok());
  MutexLock lock(mutex_);
  Entry& entry = entries_.at(name);
  entry.watch.Look(files_now);
  entry.failure = status.ok() ? "" : std::string(status.message());
  if (status.ok()) {
    entry.version = version;
    entry.served_files = files;
  }
  return status;
}

void ModelControl::RemoveOne(const std::string& name, std::string_view why) {
  {
    MutexLock lock(mutex_);
    entries_.at(name).version = 0;
  }
  actions_.remove(name);
  metrics_->TrackReloads(name, false);
  LogInfo(absl::StrCat("model ", name, " is served no more: ", std::string(why)));
}

}  // namespace lion
