#include "server/model_repository.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/utf8.h"

namespace lion {
namespace {

namespace fs = std::filesystem;

// A model's folders lie one in the other at most so deep, and hold no more files: what lies beyond is not looked at.
constexpr int kMaxDepth = 4;
constexpr size_t kMaxFiles = 10'000;

std::optional<uint64_t> VersionOf(const std::string& name) {
  const bool digits =
      !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  uint64_t version = 0;
  if (!digits || (name.size() > 1 && name[0] == '0') || !absl::SimpleAtoi(name, &version)) return std::nullopt;
  return version;
}

// The names in a folder, sorted. An error of the system's as it is.
std::vector<std::string> NamesIn(const fs::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path LatestVersion(const fs::path& folder) {
  std::optional<uint64_t> highest;
  std::error_code ignored;
  for (const std::string& name : NamesIn(folder, ignored)) {
    const std::optional<uint64_t> version = VersionOf(name);
    if (version.has_value() && fs::is_directory(folder / name, ignored)) highest = std::max(highest, version);
  }
  return highest.has_value() ? folder / absl::StrCat(*highest) : folder;
}

// One line for a file; nothing for what is gone.
void Describe(const fs::path& path, std::string* files) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return;
  absl::StrAppend(files, path.string(), " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, " ",
                  info.st_ino, "\n");
}

void DescribeFolder(const fs::path& folder, int depth, size_t* left, std::string* files) {
  std::error_code ignored;
  for (const std::string& name : NamesIn(folder, ignored)) {
    if (*left == 0) return;
    --*left;
    if (!fs::is_directory(folder / name, ignored)) {
      Describe(folder / name, files);
    } else if (depth < kMaxDepth) {
      DescribeFolder(folder / name, depth + 1, left, files);
    }
  }
}

}  // namespace

absl::StatusOr<RepositoryListing> ListRepository(const std::string& folder) {
  std::error_code error, ignored;
  const std::vector<std::string> names = NamesIn(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot read ", folder, ": ", error.message()));
  RepositoryListing listing;
  for (const std::string& name : names) {
    const fs::path path = fs::path(folder) / name;
    if (name[0] == '.' || !fs::is_directory(path, ignored)) continue;
    if (!IsPrintableUtf8(name)) {
      listing.warnings.push_back(absl::StrCat("the folder '", absl::CHexEscape(name), "' in ", folder,
                                              " is no model: its name has control characters or is not UTF-8"));
      continue;
    }
    listing.models.push_back({name, LatestVersion(path).string()});
  }
  return listing;
}

std::string LookAtFiles(const std::string& path) {
  std::string files;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    size_t left = kMaxFiles;
    DescribeFolder(path, 0, &left, &files);
    // An empty folder is not nothing.
    return absl::StrCat(path, "\n", files);
  }
  if (!fs::exists(path, ignored)) return files;
  Describe(path, &files);
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  for (const std::string& name : NamesIn(folder, ignored)) {
    if (name.ends_with(".json") || name.ends_with(".txt")) Describe(folder / name, &files);
  }
  return files;
}

}  // namespace lion
