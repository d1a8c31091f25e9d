#include "client/cli/files.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lion {
namespace {

namespace fs = std::filesystem;

bool HasImageExtension(const fs::path& path) {
  const std::string extension = absl::AsciiStrToLower(path.extension().string());
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".webp";
}

void AddFolder(const std::string& folder, std::vector<InputFile>& files) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;  // what cannot be looked at is no file
    if (HasImageExtension(it->path()) && !it->is_directory(ignored)) paths.push_back(it->path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (std::string& path : paths) files.push_back({std::move(path), absl::OkStatus()});
  if (error) {
    files.push_back({folder, absl::ErrnoToStatus(error.value(), "cannot read the folder")});
  } else if (paths.empty()) {
    files.push_back({folder, absl::NotFoundError("no .jpg, .jpeg, .png or .webp file in this folder")});
  }
}

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void AddPattern(const std::string& pattern, std::vector<InputFile>& files) {
  glob_t found;
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  if (result == 0) {
    std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    std::sort(paths.begin(), paths.end());
    for (std::string& path : paths) {
      if (IsFolder(path)) {
        AddFolder(path, files);
      } else {
        files.push_back({std::move(path), absl::OkStatus()});
      }
    }
  } else {
    files.push_back({pattern, absl::NotFoundError("no file matches this pattern")});
  }
  ::globfree(&found);
}

void AddArgument(const std::string& argument, std::vector<InputFile>& files) {
  std::error_code ignored;
  if (IsFolder(argument)) {
    AddFolder(argument, files);
  } else if (argument.find_first_of("*?[") != std::string::npos && !fs::exists(argument, ignored)) {
    AddPattern(argument, files);
  } else {
    files.push_back({argument, absl::OkStatus()});
  }
}

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return "a device or socket";
}

}  // namespace

std::vector<InputFile> ExpandFiles(const std::vector<std::string>& arguments, std::istream& list) {
  std::vector<InputFile> files;
  for (const std::string& argument : arguments) {
    if (argument != "-") {
      AddArgument(argument, files);
      continue;
    }
    const size_t before = files.size();
    for (std::string line; std::getline(list, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty()) AddArgument(line, files);
    }
    if (files.size() == before) files.push_back({"-", absl::NotFoundError("the list on standard input names no file")});
  }
  return files;
}

absl::StatusOr<std::string> ReadInputFile(const std::string& path, int64_t max_bytes) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer. It does nothing for regular files.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot open the file");
  std::string content;
  struct stat facts;
  absl::Status status;
  if (::fstat(fd, &facts) != 0) {
    status = absl::ErrnoToStatus(errno, "cannot look at the file");
  } else if (!S_ISREG(facts.st_mode)) {
    status = absl::InvalidArgumentError(absl::StrCat("it is ", KindOf(facts.st_mode), ", expected a regular file"));
  } else {
    content.resize(std::min<int64_t>(facts.st_size, max_bytes) + 1);  // one more, to see the end without another round
  }
  int64_t length = 0;
  while (status.ok()) {
    const ssize_t got = ::read(fd, content.data() + length, content.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = absl::ErrnoToStatus(errno, "cannot read the file");
    if (got <= 0) break;
    length += got;
    if (length > max_bytes) {
      status = absl::InvalidArgumentError(absl::StrCat("the file is longer than ", max_bytes, " bytes"));
      break;
    }
    if (length == static_cast<int64_t>(content.size())) content.resize(content.size() * 2);
  }
  ::close(fd);
  if (!status.ok()) return status;
  content.resize(length);
  return content;
}

}  // namespace lion
