#include "server/process_limits.h"

#include <sys/resource.h>

#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/thread_pool.h"

namespace lion {

int64_t RaiseOpenFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<int64_t>(limit.rlim_cur);
}

absl::Status CheckThreads(int threads) try {
  const ThreadPool probe("lion-probe", threads);
  return absl::OkStatus();
} catch (const std::system_error& error) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot start ", threads, " threads: ", error.what()));
}

}  // namespace lion
