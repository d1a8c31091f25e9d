// How a client shows who it is, and finds out who the server is. Not installed.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lion/client.h"

namespace lion {

// Whether what is sent there leaves this machine.
bool IsThisMachine(const std::string& address);

// INVALID_ARGUMENT: a file cannot be read or is not PEM, or a certificate comes without its key.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const ClientOptions& options);

using Interceptors = std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

// What adds the token to every call; empty where there is none. INVALID_ARGUMENT: no token in the file, or one that no
// call can carry.
absl::StatusOr<Interceptors> MakeTokenInterceptors(const ClientOptions& options);

}  // namespace lion
