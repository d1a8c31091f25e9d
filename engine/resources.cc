#include "engine/resources.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lion {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::optional<std::string> FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// Of a line "key number ...".
std::optional<int64_t> FieldOf(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string key;
    int64_t value = 0;
    if (fields >> key >> value && key == wanted) return value;
  }
  return std::nullopt;
}

// "max" is not a number.
std::optional<int64_t> NumberIn(const std::string& path) {
  const std::optional<std::string> line = FirstLine(path);
  int64_t value = 0;
  if (!line.has_value() || !absl::SimpleAtoi(*line, &value)) return std::nullopt;
  return value;
}

// The folders of this process's cgroup for `controller` and of its parents. With a cgroup namespace (as in a container)
// the path in /proc/self/cgroup may not exist under the mount: then only its root counts.
std::vector<std::string> CgroupFolders(const std::string& root, const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const bool unified = fields[0] == "0" && fields[1].empty();
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (!unified && std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (unified ? "" : "/" + fields[1]);
    std::string path = fields[2] == "/" ? "" : fields[2];
    while (true) {
      folders.push_back(mount + path);
      if (path.empty()) break;
      path.resize(path.rfind('/'));
    }
    if (!unified) folders.push_back(absl::StrCat(root, "/sys/fs/cgroup/", controller));
  }
  return folders;
}

}  // namespace

int64_t MemoryLimitBytes(const std::string& root) {
  int64_t limit = FieldOf(root + "/proc/meminfo", "MemTotal:").value_or(kUnlimited / 1024) * 1024;
  for (const std::string& folder : CgroupFolders(root, "memory")) {
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
      if (const int64_t bytes = NumberIn(folder + name).value_or(0); bytes > 0) limit = std::min(limit, bytes);
    }
  }
  return limit;
}

int64_t MemoryAvailableBytes(const std::string& root) {
  int64_t available = FieldOf(root + "/proc/meminfo", "MemAvailable:").value_or(kUnlimited / 1024) * 1024;
  struct Names {
    const char *limit, *used, *cached;
  };
  for (const std::string& folder : CgroupFolders(root, "memory")) {
    for (const Names& names : {Names{"/memory.max", "/memory.current", "inactive_file"},
                               Names{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"}}) {
      const std::optional<int64_t> limit = NumberIn(folder + names.limit), used = NumberIn(folder + names.used);
      if (!limit.has_value() || !used.has_value()) continue;
      const int64_t cached = FieldOf(folder + "/memory.stat", names.cached).value_or(0);
      available = std::min(available, std::max<int64_t>(0, *limit - (*used - std::min(cached, *used))));
    }
  }
  return available;
}

int CpuLimit(const std::string& root, int affinity) {
  double limit = affinity;
  for (const std::string& folder : CgroupFolders(root, "cpu")) {
    double quota = 0, period = 0;
    if (const auto line = FirstLine(folder + "/cpu.max"); line.has_value()) {
      const std::vector<std::string> fields = absl::StrSplit(*line, ' ');
      if (fields.size() != 2 || !absl::SimpleAtod(fields[0], &quota) || !absl::SimpleAtod(fields[1], &period)) continue;
    } else {
      const auto quota_line = FirstLine(folder + "/cpu.cfs_quota_us"),
                 period_line = FirstLine(folder + "/cpu.cfs_period_us");
      if (!quota_line || !period_line) continue;
      if (!absl::SimpleAtod(*quota_line, &quota) || !absl::SimpleAtod(*period_line, &period)) continue;
    }
    if (quota > 0 && period > 0) limit = std::min(limit, std::ceil(quota / period));
  }
  return std::max(1, static_cast<int>(limit));
}

int64_t MemoryLimitBytes() { return MemoryLimitBytes(""); }

int64_t MemoryAvailableBytes() { return MemoryAvailableBytes(""); }

int CpuLimit() {
  cpu_set_t set;
  const int affinity = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return CpuLimit("", affinity);
}

}  // namespace lion
