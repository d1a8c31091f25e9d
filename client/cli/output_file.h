// A file that appears under its name only when it is complete.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lion {

class OutputFile {
 public:
  // Writes to "<path>.part" and renames it on Commit; without a Commit, whatever was at `path` stays. What is there and
  // no regular file (a pipe, /dev/null) is written to directly. An empty path is standard output.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(const std::string& bytes);
  absl::Status Flush();
  // Overwrites the first bytes of the file. FAILED_PRECONDITION where it cannot go back (a pipe).
  absl::Status WriteAtStart(const std::string& bytes);
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string part, std::FILE* file);
  absl::Status Error(const char* what) const;
  const std::string path_;
  const std::string part_;  // empty: written directly
  std::FILE* file_;         // null once closed
};

}  // namespace lion
