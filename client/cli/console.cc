#include "client/cli/console.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "client/cli/output_file.h"
#include "client/cli/text.h"

namespace lion {

bool IsTerminal(int fd) { return ::isatty(fd) == 1; }

int Print(const std::string& text, int exit_status) {
  const auto output = OutputFile::Open("");
  absl::Status status = output.status();
  if (status.ok()) status = (*output)->Write(text);
  if (status.ok()) status = (*output)->Commit();
  if (status.ok()) return exit_status;
  std::fprintf(stderr, "lion: %s\n", std::string(status.message()).c_str());
  return 1;
}

Console::Console(std::optional<size_t> total, std::string unit, bool show_progress)
    : total_(total),
      unit_(std::move(unit)),
      enabled_(show_progress && total.value_or(2) > 1 && IsTerminal(STDERR_FILENO)) {}

Console::~Console() { Clear(); }

void Console::Clear() {
  if (visible_) std::fputs("\r\x1b[K", stderr);
  visible_ = false;
}

void Console::Message(const std::string& text) {
  Clear();
  std::fprintf(stderr, "lion: %s\n", text.c_str());
}

void Console::InputDone(bool ok) {
  ++done_;
  if (!ok) ++failed_;
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  visible_ = true;
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(now - start_);
  std::fprintf(stderr, "\r\x1b[K%s", FormatProgress(done_, total_, failed_, elapsed, unit_).c_str());
}

}  // namespace lion
