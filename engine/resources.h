// What this process may use of the machine.
#pragma once

#include <cstdint>
#include <string>

namespace lion {

// The smallest of the machine's memory and the limits of this process's cgroup and its parents (v1 and v2), in bytes.
int64_t MemoryLimitBytes();
// What of that is free: neither used by this machine or those cgroups nor more than a cache of files.
int64_t MemoryAvailableBytes();
// The cgroup's processor quota rounded up, at most the processors of the affinity mask; at least 1.
int CpuLimit();

// The same, with the root of the file system as a parameter, for tests.
int64_t MemoryLimitBytes(const std::string& root);
int64_t MemoryAvailableBytes(const std::string& root);
int CpuLimit(const std::string& root, int affinity);

}  // namespace lion
