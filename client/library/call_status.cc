#include "client/library/call_status.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lion/client.h"

namespace lion {
namespace {

using std::chrono::milliseconds;

constexpr char kPushbackUrl[] = "lion.v1/grpc-retry-pushback-ms";
constexpr char kStreamPushbackMs[] = "100";

}  // namespace

// gRPC's codes and Abseil's are the same numbers.
absl::Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto found = trailers.find("grpc-retry-pushback-ms"); found != trailers.end()) {
    result.SetPayload(kPushbackUrl, absl::Cord(absl::string_view(found->second.data(), found->second.size())));
  }
  return result;
}

absl::Status ToStatus(const v1::Error& error) {
  absl::Status status(static_cast<absl::StatusCode>(error.code()), error.message());
  return status.ok() ? absl::InternalError("the server sent an error with code 0 (OK)") : status;
}

absl::Status ToStreamStatus(const v1::Error& error) {
  absl::Status status = ToStatus(error);
  if (absl::IsResourceExhausted(status)) status.SetPayload(kPushbackUrl, absl::Cord(kStreamPushbackMs));
  return status;
}

absl::Status CheckResultCount(int got, int want) {
  if (got == want) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the server sent ", got, " results for ", want, " inputs"));
}

std::optional<milliseconds> RetryPushback(const absl::Status& status) {
  const auto payload = status.GetPayload(kPushbackUrl);
  if (!payload.has_value()) return std::nullopt;
  int64_t pushback_ms = 0;
  // As gRPC's own retries have it: what is no number means "do not try again".
  if (!absl::SimpleAtoi(std::string(*payload), &pushback_ms) || pushback_ms < 0) return milliseconds(-1);
  return milliseconds(pushback_ms);
}

}  // namespace lion
