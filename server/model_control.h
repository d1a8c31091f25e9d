// Loads, replaces and removes models while the server runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/metrics/metrics.h"
#include "server/model_repository.h"
#include "server/model_service.h"
#include "server/mutex.h"

namespace lion {

struct ModelControlOptions {
  std::vector<ModelSpec> models;  // given one by one: reloaded, never removed
  std::string repository;         // as of ListRepository; empty: none
  // How often the files are looked at. A change counts once it has been the same at two looks: too small, and copying
  // that pauses is taken for done. 0: only when asked to.
  int64_t poll_ns = 0;
};

// What the control does to the rest of the server. All are called on its thread, with no lock held.
struct ModelControlActions {
  struct Load {
    ModelSpec spec;
    std::string version;
    size_t models = 1;  // there will be, this one included
    const std::atomic<bool>* cancelled = nullptr;
  };
  // Loads and warms a model beside those that serve. May throw std::bad_alloc and std::system_error.
  std::function<absl::StatusOr<std::unique_ptr<ModelService>>(const Load&)> load;
  // Serves it in place of the one of that name, if there is one. False: not any more.
  std::function<bool(std::unique_ptr<ModelService>)> put;
  // Serves it no more.
  std::function<void(const std::string& name)> remove;
};

// Every model is loaded beside the one it replaces; an error leaves that one serving, is one line in the log and one
// more of lion_model_reloads_total. A folder that changes while it is read is tried again once it is still. Loads go
// one after the other on the control's thread. What is asked for while the thread is busy is done once, afterwards,
// however often it was asked for. All methods may be called from any thread; none blocks but the destructor and
// AwaitStopped.
class ModelControl {
 public:
  using Done = std::function<void(const absl::Status&)>;

  // `clock` and `metrics` outlive it.
  ModelControl(const ModelControlOptions& options, ModelControlActions actions, Clock* clock, Metrics* metrics);
  // Stops, and waits for what is being loaded.
  ~ModelControl();

  // The models to start with, which the caller loads as version 1: once, before Run. INVALID_ARGUMENT: two of one name.
  // UNAVAILABLE: the repository cannot be read.
  absl::StatusOr<std::vector<ModelSpec>> Begin();
  // From now on changes are made: after Serve. Starts the thread; throws std::system_error when it cannot be had.
  void Run();

  // Loads all models again, also those whose files are as they were; takes in and removes what has come and gone.
  void ReloadAll();
  // Loads one again, or one that is new in the repository or was unloaded. NOT_FOUND: there is none of that name.
  // `done` is called on the control's thread, or here with UNAVAILABLE when the server is stopping.
  void Load(const std::string& name, Done done) { Command({true, name, std::move(done)}); }
  // Removes one until it is loaded again by name. The same errors.
  void Unload(const std::string& name, Done done) { Command({false, name, std::move(done)}); }

  struct ModelState {
    std::string name;
    std::string version;  // of the one that serves; empty: none does
    std::string failure;  // why the last load failed; empty: it did not
  };
  // Sorted by name.
  std::vector<ModelState> Index() const;

  // Nothing is put or removed any more. What is being loaded is given up at its next step.
  void Stop();
  // True once nothing is being loaded, false when `deadline_ns` comes first. After Stop.
  bool AwaitStopped(int64_t deadline_ns);

 private:
  struct Entry {
    ModelSpec spec;
    bool from_repository = false;
    int64_t version = 0;  // of the one that serves; 0: none does
    bool unloaded = false;
    std::string failure;
    std::string served_files;  // what the one that serves was loaded from
    FileWatch watch;
  };
  struct Order {
    bool load = true;
    std::string name;
    Done done;
  };
  enum class Which { kAll, kChanged, kListed };

  void Command(Order order);
  void Loop();
  bool stopping() const { return stopping_.load(); }
  int64_t NextLook() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes in what is new in the repository, and does what the files of each model ask for.
  void Look(Which which);
  // False: it cannot be read, and says nothing of what there is.
  bool ListInto(std::map<std::string, std::string>* listed);
  void LookAt(const std::string& name, const std::string& files, Which which);
  absl::Status LoadOne(const std::string& name, const std::string& files);
  absl::StatusOr<std::unique_ptr<ModelService>> LoadService(const ModelControlActions::Load& load) const;
  void RemoveOne(const std::string& name, std::string_view why);
  absl::Status Obey(const Order& order);
  // Logs what was not logged last.
  void Warn(const std::vector<std::string>& warnings);

  const ModelControlOptions options_;
  const ModelControlActions actions_;
  Clock* const clock_;
  Metrics* const metrics_;
  std::vector<std::string> warned_;               // of the control's thread, or Begin's caller
  std::map<std::string, int64_t> last_versions_;  // likewise; also of those that are gone

  std::atomic<bool> stopping_ = false;
  mutable Mutex mutex_;
  CondVar changed_;
  bool reload_all_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Order> orders_ ABSL_GUARDED_BY(mutex_);
  int64_t last_look_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // changed by the control's thread alone
  std::thread thread_;
};

}  // namespace lion
