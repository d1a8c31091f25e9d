// What a port asks of those who connect: TLS, a certificate, a token.
#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "server/mutex.h"
#include "server/security/secrets.h"

namespace lion {

// Built on gRPC's C API, which alone has both of what is needed here: certificates that are asked for at each handshake
// (so that new ones serve new connections, and those there are live on), and a check of every call of every service,
// also without TLS, before its request is read and its handler is known.
//
// Without a token only grpc.health.v1 and grpc.reflection are answered, all else is UNAUTHENTICATED. A stream's token
// is checked when it is opened.
class PortCredentials final : public grpc::ServerCredentials {
 public:
  // `with_tls`: as `secrets` have it; if they have none, and otherwise, plaintext. Null `secrets`: nothing is asked
  // for. `on_refused` is called for each call without a good token, from gRPC's threads. This and `secrets` must
  // outlive the server.
  PortCredentials(const Secrets* secrets, bool with_tls, std::function<void()> on_refused);
  ~PortCredentials() override;

  // There is one already: to be called by nobody.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& processor) override;

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;

  static grpc_ssl_certificate_config_reload_status FetchCertificate(void* self,
                                                                    grpc_ssl_server_certificate_config** config);
  static void CheckCall(void* self, grpc_auth_context* context, const grpc_metadata* metadata, size_t metadata_count,
                        grpc_process_auth_metadata_done_cb done, void* call);

  const Secrets* const secrets_;
  const std::function<void()> on_refused_;
  Mutex mutex_;
  std::shared_ptr<const TlsFiles> fetched_ ABSL_GUARDED_BY(mutex_);
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace lion
