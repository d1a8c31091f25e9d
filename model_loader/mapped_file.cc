#include "model_loader/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lion {
namespace {

absl::Status SystemError(const std::string& path, const char* what) {
  const int code = errno;
  const std::string text = Concat(path, ": ", what, ": ", std::strerror(code));
  if (code == ENOENT || code == ENOTDIR) return absl::NotFoundError(text);
  if (code == EACCES || code == EPERM) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

// Fills `to` from the file's beginning.
absl::Status ReadAll(const std::string& path, int file, uint8_t* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t count = read(file, to + done, bytes - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path, "cannot read");
    if (count == 0) {
      return absl::UnavailableError(Concat(path, ": has shrunk to ", done, " bytes while its ", bytes, " were read"));
    }
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, FileAccess access) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer. It does nothing for regular files.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return SystemError(path, "cannot open");
  struct stat info;
  absl::Status status;
  void* address = MAP_FAILED;
  if (fstat(file, &info) != 0) {
    status = SystemError(path, "cannot stat");
  } else if (!S_ISREG(info.st_mode)) {
    status = InvalidFile(path, ": is not a regular file");
  } else if (info.st_size == 0) {
    status = InvalidFile(path, ": the file is empty");
  } else {
    const auto bytes = static_cast<size_t>(info.st_size);
    address = access == FileAccess::kMapped
                  ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0)
                  : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      status = SystemError(path, access == FileAccess::kMapped ? "cannot map" : "cannot have memory for it");
    } else if (access == FileAccess::kCopied) {
      status = ReadAll(path, file, static_cast<uint8_t*>(address), bytes);
    }
  }
  close(file);
  if (address == MAP_FAILED) return status;
  MappedFile mapped(path, Bytes(static_cast<const uint8_t*>(address), static_cast<size_t>(info.st_size)));
  if (!status.ok()) return status;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, Bytes())) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace lion
