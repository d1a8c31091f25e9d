#include "client/cli/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/utf8.h"
#include "lion/client.h"

namespace lion {
namespace {

// Code points of UTF-8 text: its columns, as long as nothing in it is double-width or combining.
size_t DisplayWidth(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

std::string FormatScaled(double value, double base, const char* const* units, int unit_count) {
  int unit = 0;
  while (value >= base && unit + 1 < unit_count) {
    value /= base;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%.0f%s", value, units[0]);
  return absl::StrFormat("%.1f%s", value, units[unit]);
}

// Why gRPC has no connection is only in its messages.
bool SaysNoConnection(const absl::Status& status) {
  const std::string message(status.message());
  return absl::IsUnavailable(status) &&
         (absl::StrContains(message, "failed to connect") || absl::StrContains(message, "DNS resolution failed") ||
          absl::StrContains(message, "Failed to connect"));
}

}  // namespace

std::string Printable(const std::string& text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<uint8_t>(text[i]);
    // U+0080 to U+009F are control characters as well.
    const bool two_bytes = c == 0xC2 && i + 1 < text.size() && (static_cast<uint8_t>(text[i + 1]) & 0xE0) == 0x80;
    if (two_bytes) ++i;
    result += c < 0x20 || c == 0x7F || two_bytes ? '?' : text[i];
  }
  return result;
}

std::string Shorten(const std::string& text, size_t columns) {
  size_t at = 0, last = 0;  // where the code point after `seen` others begins, and the one before it
  for (size_t seen = 0; seen < columns && at < text.size(); ++seen) {
    last = at;
    at = NextCodePoint(text, at);
  }
  return at == text.size() ? text : text.substr(0, last) + "…";
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows, const std::string& alignment,
                        std::vector<size_t>& widths) {
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size(), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - DisplayWidth(row[i]), ' ');
      const bool right = alignment[std::min(i, alignment.size() - 1)] == 'r';
      absl::StrAppend(&line, i > 0 ? "  " : "", right ? padding : "", row[i], right ? "" : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string FormatCount(uint64_t count) {
  static const char* const kUnits[] = {"", " k", " M", " G", " T"};
  return FormatScaled(static_cast<double>(count), 1000, kUnits, 5);
}

std::string FormatBytes(uint64_t bytes) {
  static const char* const kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  return FormatScaled(static_cast<double>(bytes), 1024, kUnits, 5);
}

std::string FormatScore(float score, bool percent) {
  return percent ? absl::StrFormat("%.1f %%", 100 * score) : absl::StrFormat("%.4f", score);
}

void AppendJsonFloat(float value, std::string& text) {
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  char digits[64];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
  text.append(digits, end.ptr);
}

std::string FormatProgress(size_t done, std::optional<size_t> total, size_t failed, std::chrono::milliseconds elapsed,
                           const std::string& unit) {
  std::string text = absl::StrCat(done);
  if (total.has_value()) absl::StrAppend(&text, "/", *total, "  ", *total > 0 ? 100 * done / *total : 100, " %");
  if (done > 0 && elapsed.count() > 0) {
    const double per_second = 1000.0 * static_cast<double>(done) / static_cast<double>(elapsed.count());
    absl::StrAppendFormat(&text, "  %.*f %s/s", per_second < 10 ? 1 : 0, per_second, unit);
    if (total.has_value()) {
      absl::StrAppendFormat(&text, "  %.0f s left", std::ceil(static_cast<double>(*total - done) / per_second));
    }
  }
  if (failed > 0) absl::StrAppend(&text, "  ", failed, " failed");
  return text;
}

std::string ExplainError(const absl::Status& status, const std::string& address) {
  const std::string message = Printable(std::string(status.message()));
  if (SaysNoConnection(status)) {
    // What OpenSSL and gRPC say, in words that have a remedy.
    const char* remedy = nullptr;
    if (absl::StrContains(message, "certificate verify failed")) {
      remedy = "its certificate has expired, or is from an authority that is not trusted here (--tls-ca)";
    } else if (absl::StrContains(message, "not in peer certificate")) {
      remedy = "its certificate is another server's (--tls-server-name)";
    } else if (absl::StrContains(message, "wrong version number")) {
      remedy = "it does not speak TLS";
    } else if (absl::StrContains(message, "Socket closed")) {
      remedy = "it hung up: does it want TLS (--tls), or another certificate of its callers (--tls-cert)?";
    }
    if (remedy != nullptr) return absl::StrCat("cannot connect to ", address, ": ", remedy, " (", message, ")");
    return absl::StrCat("cannot connect to ", address, ": is the server running? (", message, ")");
  }
  std::string told = absl::StrCat(absl::StatusCodeToString(status.code()), ": ", message);
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return absl::StrCat(told, " (the server at ", address, " is starting, stopping, or was lost during the call)");
    case absl::StatusCode::kDeadlineExceeded:
      return absl::StrCat(told, " (--timeout-ms sets the limit)");
    case absl::StatusCode::kUnimplemented:
      return absl::StrCat(told, " (is ", address, " a LION server?)");
    case absl::StatusCode::kUnauthenticated:
      return absl::StrCat(told, " (--token-file or the variable LION_TOKEN brings one)");
    case absl::StatusCode::kResourceExhausted:
      if (RetryPushback(status).has_value()) return absl::StrCat(told, " (tried again until patience ran out)");
      return told;
    default:
      return told;
  }
}

}  // namespace lion
