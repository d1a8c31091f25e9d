// How things look on a terminal: aligned columns, shortened numbers, errors with advice.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lion {

// `text` (UTF-8) without control characters, which a file name, a label or a token could use to write over the screen:
// each is shown as '?'.
std::string Printable(const std::string& text);

// The first `columns` code points of `text`, the last of them "…" where more are left out. At least 1.
std::string Shorten(const std::string& text, size_t columns);

// Lines of cells, two spaces between columns, each line ended by '\n' and without spaces before it. `alignment` has 'l'
// or 'r' per column; its last letter holds for all further columns. `widths` are the least widths of the columns
// and grow to those used: pass them again to go on with the same table. Rows may differ in length.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows, const std::string& alignment,
                        std::vector<size_t>& widths);

std::string FormatCount(uint64_t count);             // "812", "21.3 k", "5.5 M", "1.2 G"
std::string FormatBytes(uint64_t bytes);             // "812 B", "21.3 KiB", "5.5 MiB"
std::string FormatScore(float score, bool percent);  // "99.8 %", or "-3.1416"

// The shortest decimal that reads back as the same float, as JSON has it; "null" where it is not finite.
void AppendJsonFloat(float value, std::string& text);

// "1234/10000  12 %  456 files/s  19 s left  2 failed"; where nobody knows the total: "1234  456 files/s  2 failed".
// `unit`: "files".
std::string FormatProgress(size_t done, std::optional<size_t> total, size_t failed, std::chrono::milliseconds elapsed,
                           const std::string& unit);

// What a person can do with an error of a call to `address`.
std::string ExplainError(const absl::Status& status, const std::string& address);

}  // namespace lion
