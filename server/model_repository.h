// Which models a folder holds, and when the files of one have changed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lion {

struct ModelSpec {
  std::string name;
  std::string path;
};

struct RepositoryListing {
  std::vector<ModelSpec> models;      // sorted by name
  std::vector<std::string> warnings;  // folders that cannot be models
};

// Each folder in `folder` is a model of its name: the files in it or, if it holds folders whose names are numbers
// ("7", not "07"), those in the highest. Symbolic links count as what they lead to; what begins with '.' and what is no
// folder is passed over. UNAVAILABLE: `folder` cannot be read.
absl::StatusOr<RepositoryListing> ListRepository(const std::string& folder);

// What the files of a model look like: two that differ mean that one of them was replaced, written or removed. Of a
// folder all that is in it; of a file it and the files of settings beside it. Empty: there is nothing. Contents are not
// read.
std::string LookAtFiles(const std::string& path);

// Tells changes that are complete from those that somebody still works on.
class FileWatch {
 public:
  // The files as they were when somebody tried to load them, whether that succeeded or not.
  void Tried(const std::string& files) { tried_ = seen_ = files; }
  // The files as they are. True: they are not those that were tried, and have been the same at two looks in a row.
  bool Look(const std::string& files) {
    const bool still = files == seen_;
    seen_ = files;
    return still && files != tried_;
  }
  // Whether they have changed since they were tried.
  bool changing() const { return seen_ != tried_; }

 private:
  std::string tried_;
  std::string seen_;
};

}  // namespace lion
