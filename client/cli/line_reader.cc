#include "client/cli/line_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kCarriageReturn = "\r";

}  // namespace

LineReader::LineReader(int fd, size_t max_line_bytes)
    : fd_(fd), max_line_bytes_(max_line_bytes), buffer_(kBufferBytes) {}

LineReader::~LineReader() {
  if (fd_ != STDIN_FILENO) ::close(fd_);
}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path, size_t max_line_bytes) {
  int fd = STDIN_FILENO;
  if (path != "-") fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot open the file");
  return std::unique_ptr<LineReader>(new LineReader(fd, max_line_bytes));
}

bool LineReader::Fill() {
  if (ended_) return false;
  ssize_t got = 0;
  do {
    got = ::read(fd_, buffer_.data(), buffer_.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) error_ = absl::ErrnoToStatus(errno, "cannot read the file");
  ended_ = got <= 0;
  begin_ = 0;
  end_ = ended_ ? 0 : static_cast<size_t>(got);
  return !ended_;
}

std::optional<absl::StatusOr<std::string>> LineReader::Next() {
  std::string line;
  size_t length = 0;  // also of what is not kept
  bool complete = false;
  // One byte more than there may be, with what is taken off.
  const size_t kept_bytes = max_line_bytes_ + 1 + kByteOrderMark.size() + kCarriageReturn.size();
  while (!complete && (begin_ < end_ || Fill())) {
    const char* const from = buffer_.data() + begin_;
    const auto* const line_end = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
    complete = line_end != nullptr;
    const size_t bytes = complete ? line_end - from : end_ - begin_;
    line.append(from, std::min(bytes, kept_bytes - line.size()));
    length += bytes;
    begin_ += bytes + (complete ? 1 : 0);
  }
  if (!error_.ok()) {
    const absl::Status error = error_;
    error_ = absl::OkStatus();
    return error;
  }
  if (!complete && length == 0) return std::nullopt;
  if (first_line_ && line.starts_with(kByteOrderMark)) {
    line.erase(0, kByteOrderMark.size());
    length -= kByteOrderMark.size();
  }
  first_line_ = false;
  if (length == line.size() && line.ends_with(kCarriageReturn)) {
    line.pop_back();
    --length;
  }
  if (length > max_line_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the line has ", length, " bytes; expected ", max_line_bytes_, " at most"));
  }
  return line;
}

bool LineReader::MustWait() const {
  if (ended_) return false;
  if (begin_ < end_ && std::memchr(buffer_.data() + begin_, '\n', end_ - begin_) != nullptr) return false;
  pollfd waiting = {fd_, POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 0;
}

}  // namespace lion
