// The server's certificate, its key and the authorities of its callers, as files hold them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lion {

struct TlsPaths {
  std::string certificate;  // the server's own first, then those that signed it
  std::string key;          // of the first certificate, not encrypted
  std::string client_ca;    // who signs callers' certificates; empty: callers need none
};

// All in PEM.
struct TlsFiles {
  std::string certificate_chain;
  std::string private_key;
  std::string client_ca;
  std::string summary;  // whose certificate it is, and until when
};

// Reads them without looking into them. FAILED_PRECONDITION: a file cannot be read.
absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsPaths& paths);

// Whether a server can run on them, and fills in the summary. FAILED_PRECONDITION names the flag and the file: not PEM,
// an encrypted key, the key of another certificate, a certificate that has expired, or what OpenSSL has against it.
absl::Status CheckTlsFiles(const TlsPaths& paths, TlsFiles* files);

}  // namespace lion
