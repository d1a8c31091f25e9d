#include "server/security/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& flag, const std::string& path) {
  const auto failure = [&](const std::string& what) {
    return absl::FailedPreconditionError(absl::StrCat(flag, " ", path, ": ", what));
  };
  // Not to wait for the other end of a pipe.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return failure(absl::StrCat("cannot be read: ", std::strerror(errno)));
  struct stat info = {};
  std::string content;
  std::string error;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    error = "is not a regular file";
  } else {
    content.resize(kMaxBytes + 1);
    size_t length = 0;
    while (error.empty() && length < content.size()) {
      const ssize_t count = read(descriptor, content.data() + length, content.size() - length);
      if (count == 0) break;
      if (count > 0) {
        length += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        error = absl::StrCat("cannot be read: ", std::strerror(errno));
      }
    }
    content.resize(length);
    if (length > kMaxBytes) error = absl::StrCat("has more than ", kMaxBytes, " bytes");
  }
  close(descriptor);
  if (!error.empty()) return failure(error);
  content.shrink_to_fit();
  return content;
}

}  // namespace lion
