// Where errors become gRPC codes: the only place.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "lion/v1/lion.pb.h"

namespace lion {

// The same code (absl's codes are gRPC's), the message cut to what fits a trailer.
grpc::Status ToGrpcStatus(const absl::Status& status);

// One input's error inside a reply.
v1::Error ToError(const absl::Status& status);

// The status of a unary call, with grpc-retry-pushback-ms in its trailing metadata where the status carries one. To be
// called before Finish.
grpc::Status FinalStatus(const absl::Status& status, grpc::CallbackServerContext* context);

}  // namespace lion
