#pragma once

#include <cstdint>
#include <string>

namespace lion::bench {

// "1 call", "2 calls"
inline std::string Plural(int64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

}  // namespace lion::bench
