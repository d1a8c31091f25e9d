#include "server/rpc/status.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "server/batcher.h"

namespace lion {
namespace {

// gRPC peers accept 8 KiB of metadata, in which a byte may take three.
constexpr size_t kMaxMessageBytes = 2000;

// Cut before a UTF-8 character, never inside.
std::string Message(const absl::Status& status) {
  const absl::string_view text = status.message();
  if (text.size() <= kMaxMessageBytes) return std::string(text);
  size_t end = kMaxMessageBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
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
