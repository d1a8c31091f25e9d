#include "server/rpc/trace_context.h"

namespace lion {
namespace {

// version "-" trace-id "-" parent-id "-" flags
constexpr size_t kVersionDigits = 2, kTraceDigits = 32, kParentDigits = 16, kFlagDigits = 2;
constexpr size_t kLength = kVersionDigits + 1 + kTraceDigits + 1 + kParentDigits + 1 + kFlagDigits;

bool IsLowerHex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == text.npos; }
bool IsZero(std::string_view text) { return text.find_first_not_of('0') == text.npos; }

}  // namespace

std::string_view TraceIdOf(std::string_view traceparent) {
  if (traceparent.size() < kLength) return {};
  size_t at = 0;
  bool good = true;
  const auto take = [&](size_t digits) {
    const std::string_view field = traceparent.substr(at, digits);
    at += digits;
    good = good && IsLowerHex(field) && (at == kLength || traceparent[at] == '-');
    ++at;
    return field;
  };
  const std::string_view version = take(kVersionDigits);
  const std::string_view trace = take(kTraceDigits);
  const std::string_view parent = take(kParentDigits);
  take(kFlagDigits);
  // A later version may say more, behind another dash.
  const bool ends = traceparent.size() == kLength || (version != "00" && traceparent[kLength] == '-');
  return good && ends && version != "ff" && !IsZero(trace) && !IsZero(parent) ? trace : std::string_view();
}

}  // namespace lion
