#include "server/security/token_list.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lion {

TokenList::Digest TokenList::DigestOf(std::string_view token) {
  Digest digest = {};
  EVP_Digest(token.data(), token.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  return digest;
}

absl::StatusOr<TokenList> TokenList::Parse(std::string_view text) {
  TokenList list;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (!std::all_of(line.begin(), line.end(), [](char c) { return absl::ascii_isgraph(c); })) {
      return absl::FailedPreconditionError(
          absl::StrCat("line ", number, " is no token: want visible ASCII characters without spaces"));
    }
    list.digests_.push_back(DigestOf({line.data(), line.size()}));
  }
  if (list.digests_.empty()) return absl::FailedPreconditionError("holds no token: want one a line");
  return list;
}

bool TokenList::Has(std::string_view token) const {
  const Digest digest = DigestOf(token);
  int found = 0;
  for (const Digest& known : digests_) found |= CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0 ? 1 : 0;
  return found != 0;
}

}  // namespace lion
