// The lines of a text file, pipe or terminal, one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lion {

// Not thread-safe. Memory: one line.
class LineReader {
 public:
  // `path`: "-" is standard input. A pipe is waited for. Errors say what the system said, and name no path.
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(const std::string& path, size_t max_line_bytes);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line without its "\n" or "\r\n", the first without a byte order mark; nothing: there is none left.
  // INVALID_ARGUMENT: it is longer than `max_line_bytes`, and passed over. Another error: the file cannot be read, and
  // ends here.
  std::optional<absl::StatusOr<std::string>> Next();

  // True while Next would wait for whoever writes the next line.
  bool MustWait() const;

 private:
  LineReader(int fd, size_t max_line_bytes);
  // Reads on; false: the end, or an error.
  bool Fill();

  const int fd_;
  const size_t max_line_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // what has been read and not given, in `buffer_`
  bool first_line_ = true;
  bool ended_ = false;
  absl::Status error_;  // why it ended
};

}  // namespace lion
