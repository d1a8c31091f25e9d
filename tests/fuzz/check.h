// What every fuzz target checks with. A target is one file with LLVMFuzzerTestOneInput; README.md says how to run them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lion::fuzz {

// Ends the process, which libFuzzer reports together with the input, unless `holds`.
inline void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

inline void CheckEqual(int64_t found, int64_t expected, const char* what) {
  if (found == expected) return;
  std::fprintf(stderr, "broken: %s: %lld, expected %lld\n", what, static_cast<long long>(found),
               static_cast<long long>(expected));
  std::abort();
}

inline void CheckAtMost(int64_t found, int64_t limit, const char* what) {
  if (found <= limit) return;
  std::fprintf(stderr, "broken: %s: %lld, at most %lld\n", what, static_cast<long long>(found),
               static_cast<long long>(limit));
  std::abort();
}

// OK, or a refusal of this code that says why.
inline void CheckRefusal(const absl::Status& status, absl::StatusCode code, const char* what) {
  if (status.ok() || (status.code() == code && !status.message().empty())) return;
  std::fprintf(stderr, "broken: %s answers %s\n", what, status.ToString().c_str());
  std::abort();
}

inline std::string_view AsText(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

}  // namespace lion::fuzz
