// A file mapped read-only into memory.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "model_loader/bytes.h"

namespace lion {

// Unmapped on destruction; bytes() points into it. Movable. Any thread may read.
//
// The kernel delivers SIGBUS to whoever reads a page that is no longer in the file: a checkpoint must be replaced by
// rename, never truncated or rewritten in place, while a process has it mapped. The engine copies the weights when it
// loads, so the danger ends there.
class MappedFile {
 public:
  // NOT_FOUND where there is no such file, INVALID_ARGUMENT for an empty one and for what is no regular file,
  // PERMISSION_DENIED or UNAVAILABLE with the system's reason otherwise.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  Bytes bytes() const { return bytes_; }

 private:
  MappedFile(std::string path, Bytes bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  Bytes bytes_;
};

}  // namespace lion
