#include "server/rpc/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lion {

absl::Status MakeRoomForSocket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("--unix-socket ", path, ": the path has ", path.size(),
                                                   " bytes, want 1 to ", sizeof(address.sun_path) - 1));
  }
  const auto failure = [&path](const std::string& what) {
    return absl::UnavailableError(absl::StrCat("cannot listen on unix:", path, ": ", what));
  };
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : failure(std::strerror(errno));
  }
  if (!S_ISSOCK(info.st_mode)) return failure("there is something that is not a socket");
  std::memcpy(address.sun_path, path.data(), path.size());
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return failure(std::strerror(errno));
  const int error = connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(probe);
  // EAGAIN: connections wait to be accepted.
  if (error == 0 || error == EAGAIN) return failure("another server listens there");
  if (error != ECONNREFUSED) return failure(std::strerror(error));
  if (unlink(path.c_str()) != 0) {
    return failure(absl::StrCat("the socket of a former server cannot be removed: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

SocketMode::SocketMode(mode_t mode) : before_(umask(~mode & 0777)) {}

SocketMode::~SocketMode() { umask(before_); }

}  // namespace lion
