#include "server/model_control.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/log.h"

namespace lion {
namespace {

// How soon files are looked at again that have changed while they were read.
constexpr int64_t kSettleNs = 1'000'000'000;

}  // namespace

ModelControl::ModelControl(const ModelControlOptions& options, ModelControlActions actions, Clock* clock,
                           Metrics* metrics)
    : options_(options), actions_(std::move(actions)), clock_(clock), metrics_(metrics) {}

ModelControl::~ModelControl() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::vector<ModelSpec>> ModelControl::Begin() {
  std::vector<ModelSpec> specs = options_.models;
  if (!options_.repository.empty()) {
    absl::StatusOr<RepositoryListing> listing = ListRepository(options_.repository);
    if (!listing.ok()) return listing.status();
    Warn(listing->warnings);
    specs.insert(specs.end(), listing->models.begin(), listing->models.end());
  }
  MutexLock lock(mutex_);
  for (size_t i = 0; i < specs.size(); ++i) {
    Entry entry = {.spec = specs[i], .from_repository = i >= options_.models.size(), .version = 1};
    // As they are before they are read: what is written meanwhile is seen as a change.
    entry.served_files = LookAtFiles(specs[i].path);
    entry.watch.Tried(entry.served_files);
    last_versions_[specs[i].name] = 1;
    if (!entries_.emplace(specs[i].name, std::move(entry)).second) {
      return absl::InvalidArgumentError(absl::StrCat("two models are named '", specs[i].name, "', one of them in ",
                                                     options_.repository, ": name the other with --model NAME=PATH"));
    }
  }
  return specs;
}

void ModelControl::Run() {
  {
    MutexLock lock(mutex_);
    for (const auto& [name, entry] : entries_) metrics_->TrackReloads(name, true);
    last_look_ns_ = clock_->NowNs();
  }
  thread_ = std::thread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "lion-models");
}

void ModelControl::ReloadAll() {
  MutexLock lock(mutex_);
  reload_all_ = true;
  changed_.NotifyAll();
}

void ModelControl::Command(Order order) {
  {
    MutexLock lock(mutex_);
    if (!stopping()) {
      orders_.push_back(std::move(order));
      changed_.NotifyAll();
      return;
    }
  }
  order.done(absl::UnavailableError("the server is shutting down"));
}

std::vector<ModelControl::ModelState> ModelControl::Index() const {
  MutexLock lock(mutex_);
  std::vector<ModelState> states;
  for (const auto& [name, entry] : entries_) {
    states.push_back({name, entry.version > 0 ? absl::StrCat(entry.version) : "", entry.failure});
  }
  return states;
}

void ModelControl::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.NotifyAll();
}

bool ModelControl::AwaitStopped(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (busy_) {
    if (clock_->NowNs() >= deadline_ns) return false;
    clock_->WaitUntil(changed_, mutex_, deadline_ns);
  }
  return true;
}

int64_t ModelControl::NextLook() const {
  if (options_.poll_ns > 0) return last_look_ns_ + options_.poll_ns;
  const bool unsettled =
      std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) { return entry.second.watch.changing(); });
  return unsettled ? last_look_ns_ + kSettleNs : kNever;
}

void ModelControl::Loop() {
  while (true) {
    bool reload_all = false, look = false;
    std::vector<Order> orders;
    {
      MutexLock lock(mutex_);
      while (!stopping() && !reload_all_ && orders_.empty() && clock_->NowNs() < NextLook()) {
        clock_->WaitUntil(changed_, mutex_, NextLook());
      }
      reload_all = std::exchange(reload_all_, false);
      look = reload_all || clock_->NowNs() >= NextLook();
      orders.swap(orders_);
      busy_ = true;
    }
    if (look && !stopping()) Look(reload_all ? Which::kAll : Which::kChanged);
    for (const Order& order : orders) order.done(Obey(order));
    MutexLock lock(mutex_);
    busy_ = false;
    changed_.NotifyAll();
    if (stopping() && orders_.empty()) return;
  }
}

absl::Status ModelControl::Obey(const Order& order) {
  if (stopping()) return absl::UnavailableError("the server is shutting down");
  if (order.load) Look(Which::kListed);
  std::string path;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(order.name);
    if (found == entries_.end() || (!order.load && found->second.version == 0)) {
      return absl::NotFoundError(absl::StrCat("no model of the name '", order.name, "'"));
    }
    found->second.unloaded = !order.load;
    path = found->second.spec.path;
  }
  if (order.load) return LoadOne(order.name, LookAtFiles(path));
  RemoveOne(order.name, "it was unloaded");
  return absl::OkStatus();
}

void ModelControl::Warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    if (std::find(warned_.begin(), warned_.end(), warning) == warned_.end()) LogWarning(warning);
  }
  warned_ = warnings;
}

}  // namespace lion
