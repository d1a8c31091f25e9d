// Views of a file's bytes, little-endian reads, overflow-checked sizes and error texts. For model_loader and the
// tokenizer.
#pragma once

#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace lion {

using Bytes = absl::Span<const uint8_t>;

// The caller has checked that sizeof(T) bytes are there. Any alignment.
template <typename T>
T ReadLittleEndian(const uint8_t* bytes) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checkpoints are read on little-endian machines only");
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

inline std::string_view AsText(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// False on overflow; *result is then unspecified.
template <typename T>
[[nodiscard]] bool CheckedAdd(T a, T b, T* result) {
  return !__builtin_add_overflow(a, b, result);
}
template <typename T>
[[nodiscard]] bool CheckedMultiply(T a, T b, T* result) {
  return !__builtin_mul_overflow(a, b, result);
}

template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <typename... Parts>
absl::Status InvalidFile(const Parts&... parts) {
  return absl::InvalidArgumentError(Concat(parts...));
}

}  // namespace lion
