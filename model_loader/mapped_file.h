// A file's bytes in memory: mapped read-only, or copied.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "model_loader/bytes.h"

namespace lion {

// kMapped: nothing is read before it is looked at. The kernel delivers SIGBUS to whoever reads a page that is no longer
// in the file: a checkpoint must be replaced by rename, never truncated or rewritten in place, while a process has it
// mapped. The engine copies the weights when it loads, so the danger ends there.
// kCopied: for files that somebody may be writing just now.
enum class FileAccess : uint8_t { kMapped, kCopied };

// Unmapped on destruction; bytes() points into it. Movable. Any thread may read.
class MappedFile {
 public:
  // NOT_FOUND where there is no such file, INVALID_ARGUMENT for an empty one and for what is no regular file,
  // PERMISSION_DENIED or UNAVAILABLE with the system's reason otherwise; UNAVAILABLE, too, for one that shrinks while
  // it is copied.
  static absl::StatusOr<MappedFile> Open(const std::string& path, FileAccess access = FileAccess::kMapped);

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
