#include "client/cli/output_file.h"

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lion {

OutputFile::OutputFile(std::string path, std::string part, std::FILE* file)
    : path_(std::move(path)), part_(std::move(part)), file_(file) {}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& path) {
  if (path.empty()) return std::unique_ptr<OutputFile>(new OutputFile("standard output", "", stdout));
  std::error_code ignored;
  const bool direct = std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
  const std::string part = direct ? "" : path + ".part";
  std::FILE* const file = std::fopen(direct ? path.c_str() : part.c_str(), "wb");
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", direct ? path : part));
  return std::unique_ptr<OutputFile>(new OutputFile(path, part, file));
}

OutputFile::~OutputFile() {
  if (file_ == nullptr || file_ == stdout) return;
  std::fclose(file_);
  if (!part_.empty()) std::remove(part_.c_str());
}

absl::Status OutputFile::Error(const char* what) const {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path_));
}

absl::Status OutputFile::Write(const std::string& bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return Error("write");
  return absl::OkStatus();
}

absl::Status OutputFile::Flush() { return std::fflush(file_) == 0 ? absl::OkStatus() : Error("write"); }

absl::Status OutputFile::WriteAtStart(const std::string& bytes) {
  if (std::fseek(file_, 0, SEEK_SET) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path_, " is no regular file: its start cannot be rewritten"));
  }
  return Write(bytes);
}

absl::Status OutputFile::Commit() {
  absl::Status status = Flush();
  if (!status.ok() || file_ == stdout) return status;
  if (std::fclose(std::exchange(file_, nullptr)) != 0) status = Error("write");
  if (status.ok() && !part_.empty() && std::rename(part_.c_str(), path_.c_str()) != 0) status = Error("create");
  if (!status.ok() && !part_.empty()) std::remove(part_.c_str());
  return status;
}

}  // namespace lion
