// Credentials for the fake server, and what its callers bring.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "tests/support/certificates.h"

namespace lion::testing {

// With `callers`, these must have a certificate of it.
inline std::shared_ptr<grpc::ServerCredentials> TlsOf(const Identity& identity, const Authority* callers = nullptr) {
  grpc::SslServerCredentialsOptions options(callers == nullptr
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
  if (callers != nullptr) options.pem_root_certs = callers->certificate();
  return grpc::SslServerCredentials(options);
}

// Of a call: "Bearer abc", or empty.
inline std::string AuthorizationOf(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("authorization");
  return found == context.client_metadata().end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace lion::testing
