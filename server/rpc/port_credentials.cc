#include "server/rpc/port_credentials.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace lion {
namespace {

constexpr absl::string_view kScheme = "Bearer ";
// Probes come without a token, and the API is no secret; neither names a model that its caller has not named.
constexpr absl::string_view kOpenServices[] = {"/grpc.health.v1.Health/", "/grpc.reflection.v1alpha.ServerReflection/",
                                               "/grpc.reflection.v1.ServerReflection/"};

absl::string_view TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

bool IsOpen(absl::string_view path) {
  for (const absl::string_view service : kOpenServices) {
    if (absl::StartsWith(path, service)) return true;
  }
  return false;
}

// Null: the call may go on.
const char* WhatIsWrong(const TokenList& tokens, const grpc_metadata* metadata, size_t metadata_count) {
  absl::string_view path, authorization;
  int authorizations = 0;
  for (size_t i = 0; i < metadata_count; ++i) {
    const absl::string_view key = TextOf(metadata[i].key);
    if (key == ":path") path = TextOf(metadata[i].value);
    if (key == "authorization") {
      authorization = TextOf(metadata[i].value);
      ++authorizations;
    }
  }
  if (IsOpen(path)) return nullptr;
  if (authorizations != 1 || !absl::StartsWithIgnoreCase(authorization, kScheme)) {
    return "this server wants a token: one 'authorization: Bearer TOKEN' in the call's metadata";
  }
  authorization.remove_prefix(kScheme.size());
  while (absl::ConsumePrefix(&authorization, " ")) continue;
  return tokens.Has({authorization.data(), authorization.size()}) ? nullptr : "the token is none of this server's";
}

}  // namespace

PortCredentials::PortCredentials(const Secrets* secrets, bool with_tls, std::function<void()> on_refused)
    : secrets_(secrets), on_refused_(std::move(on_refused)) {
  const std::shared_ptr<const TlsFiles> tls = secrets == nullptr || !with_tls ? nullptr : secrets->tls();
  if (tls != nullptr) {
    const grpc_ssl_client_certificate_request_type request =
        tls->client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, FetchCertificate, this));
  } else {
    credentials_ = grpc_insecure_server_credentials_create();
  }
  if (secrets != nullptr && secrets->tokens() != nullptr) {
    grpc_server_credentials_set_auth_metadata_processor(credentials_,
                                                        {.process = CheckCall, .destroy = nullptr, .state = this});
  }
}

PortCredentials::~PortCredentials() { grpc_server_credentials_release(credentials_); }

void PortCredentials::SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) {
  std::abort();
}

int PortCredentials::AddPortToServer(const std::string& address, grpc_server* server) {
  return grpc_server_add_http2_port(server, address.c_str(), credentials_);
}

grpc_ssl_certificate_config_reload_status PortCredentials::FetchCertificate(
    void* self, grpc_ssl_server_certificate_config** config) {
  auto* const that = static_cast<PortCredentials*>(self);
  std::shared_ptr<const TlsFiles> tls = that->secrets_->tls();
  MutexLock lock(that->mutex_);
  if (tls == that->fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair = {tls->private_key.c_str(), tls->certificate_chain.c_str()};
  // gRPC wants authorities even where it asks callers for no certificate: they are then of no effect.
  const std::string& authorities = tls->client_ca.empty() ? tls->certificate_chain : tls->client_ca;
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
  that->fetched_ = std::move(tls);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

void PortCredentials::CheckCall(void* self, grpc_auth_context* /*context*/, const grpc_metadata* metadata,
                                size_t metadata_count, grpc_process_auth_metadata_done_cb done, void* call) {
  const auto* const that = static_cast<const PortCredentials*>(self);
  const char* const wrong = WhatIsWrong(*that->secrets_->tokens(), metadata, metadata_count);
  if (wrong != nullptr) that->on_refused_();
  done(call, nullptr, 0, nullptr, 0, wrong == nullptr ? GRPC_STATUS_OK : GRPC_STATUS_UNAUTHENTICATED, wrong);
}

}  // namespace lion
