// The bearer tokens that a caller may show.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lion {

// Immutable. Holds digests: no token is in memory once it is read, and none can reach a log from here.
class TokenList {
 public:
  // One token a line, of visible ASCII characters; spaces around it, empty lines and lines that begin with '#' are
  // passed over. FAILED_PRECONDITION: there is no token, or a line (named by its number alone) holds something else.
  static absl::StatusOr<TokenList> Parse(std::string_view text);

  // Takes as long whichever of the tokens it is, or none: all are compared, as digests and in constant time.
  bool Has(std::string_view token) const;
  size_t size() const { return digests_.size(); }
  bool operator==(const TokenList&) const = default;

 private:
  using Digest = std::array<uint8_t, 32>;  // SHA-256

  static Digest DigestOf(std::string_view token);

  std::vector<Digest> digests_;
};

}  // namespace lion
