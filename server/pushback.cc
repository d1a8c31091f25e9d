#include "server/pushback.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace lion {

absl::Status TryAgainIn(int64_t pushback_ms, absl::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(message, "; try again in ", pushback_ms, " ms"));
  status.SetPayload(kRetryPushbackPayload, absl::Cord(absl::StrCat(pushback_ms)));
  return status;
}

}  // namespace lion
