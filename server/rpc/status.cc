#include "server/rpc/status.h"

#include <string>

#include "absl/strings/cord.h"
#include "server/pushback.h"
#include "server/utf8.h"

namespace lion {
namespace {

// gRPC peers accept 8 KiB of metadata, in which a byte may take three.
constexpr size_t kMaxMessageBytes = 2000;

std::string Message(const absl::Status& status) {
  return CutUtf8({status.message().data(), status.message().size()}, kMaxMessageBytes);
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Message(status));
}

v1::Error ToError(const absl::Status& status) {
  v1::Error error;
  error.set_code(static_cast<int32_t>(status.code()));
  error.set_message(Message(status));
  return error;
}

grpc::Status FinalStatus(const absl::Status& status, grpc::CallbackServerContext* context) {
  if (const absl::optional<absl::Cord> pushback = status.GetPayload(kRetryPushbackPayload)) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", std::string(*pushback));
  }
  return ToGrpcStatus(status);
}

}  // namespace lion
