// What a command says: messages on standard error, and below them a progress line that never mixes with them; short
// results on standard output.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace lion {

// Not thread-safe: used from the thread that delivers results.
class Console {
 public:
  // `total`: inputs to come, as far as it is known; `unit`: what they are, in the plural. The progress line is shown
  // where `show_progress` and standard error is a terminal.
  Console(std::optional<size_t> total, std::string unit, bool show_progress);
  ~Console();  // takes the progress line away
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void Message(const std::string& text);  // one line
  void InputDone(bool ok);                // moves the progress line, at most ten times a second

 private:
  using Clock = std::chrono::steady_clock;

  const std::optional<size_t> total_;
  const std::string unit_;
  const bool enabled_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
  size_t done_ = 0;
  size_t failed_ = 0;
  bool visible_ = false;
  void Clear();
};

// Writes all of `text` to standard output and returns `exit_status`; 1 where that cannot be done, with the reason on
// standard error.
int Print(const std::string& text, int exit_status = 0);

// True where the file descriptor (1: output, 2: errors) is a terminal.
bool IsTerminal(int fd);

}  // namespace lion
