// From what a call ended with to an absl::Status. Not installed.
#pragma once

#include "absl/status/status.h"
#include "lion/v1/lion.pb.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace lion {

// With the pushback of the trailing metadata as RetryPushback's payload.
absl::Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context);

// Never OK: code 0 is the server's fault, and INTERNAL.
absl::Status ToStatus(const v1::Error& error);

// `error` is the response to a request in a stream. A response has no trailing metadata: RESOURCE_EXHAUSTED gets a
// pushback of 100 ms.
absl::Status ToStreamStatus(const v1::Error& error);

absl::Status CheckResultCount(int got, int want);

}  // namespace lion
