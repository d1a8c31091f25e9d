#include "client/cli/retry.h"

#include <gtest/gtest.h>

#include "absl/strings/cord.h"

namespace lion {
namespace {

using std::chrono::milliseconds;

absl::Status Busy(const char* pushback_ms) {
  absl::Status status = absl::ResourceExhaustedError("the queue is full");
  status.SetPayload("lion.v1/grpc-retry-pushback-ms", absl::Cord(pushback_ms));
  return status;
}

TEST(NextWaitTest, DoublesUpToTheLargest) {
  const RetryPolicy policy{
      .unavailable_attempts = 9, .first_wait = milliseconds(100), .largest_wait = milliseconds(1000)};
  const absl::Status gone = absl::UnavailableError("gone");
  const int want_ms[] = {100, 200, 400, 800, 1000, 1000, 1000, 1000};
  for (int attempt = 1; attempt <= 8; ++attempt) {
    EXPECT_EQ(NextWait(policy, gone, attempt, 0), milliseconds(want_ms[attempt - 1])) << attempt;
  }
  EXPECT_EQ(NextWait(policy, gone, 9, 0), std::nullopt);
}

TEST(NextWaitTest, IsShortenedByUpToHalfAtRandom) {
  const absl::Status gone = absl::UnavailableError("gone");
  EXPECT_EQ(NextWait(RetryPolicy(), gone, 1, 0.5), milliseconds(75));
  EXPECT_EQ(NextWait(RetryPolicy(), gone, 1, 0.999), milliseconds(50));
}

TEST(NextWaitTest, APushbackIsWaitedOut) {
  EXPECT_EQ(NextWait(RetryPolicy(), Busy("250"), 1, 0.9), milliseconds(250));
  EXPECT_EQ(NextWait(RetryPolicy(), Busy("60000"), 1, 0.9), milliseconds(60'000));
  // A short one does not undo the growing distance of a crowd that comes back again and again.
  EXPECT_EQ(NextWait(RetryPolicy(), Busy("0"), 3, 0), milliseconds(400));
}

TEST(NextWaitTest, ANegativePushbackIsObeyed) {
  EXPECT_EQ(NextWait(RetryPolicy(), Busy("-1"), 1, 0), std::nullopt);
  absl::Status gone = absl::UnavailableError("for ever");
  gone.SetPayload("lion.v1/grpc-retry-pushback-ms", absl::Cord("-1"));
  EXPECT_EQ(NextWait(RetryPolicy(), gone, 1, 0), std::nullopt);
}

TEST(NextWaitTest, IsBounded) {
  EXPECT_NE(NextWait({.busy_attempts = 4}, Busy("1"), 3, 0), std::nullopt);
  EXPECT_EQ(NextWait({.busy_attempts = 4}, Busy("1"), 4, 0), std::nullopt);
}

TEST(NextWaitTest, OtherErrorsAreFinal) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "x");
    EXPECT_EQ(NextWait(RetryPolicy(), status, 1, 0).has_value(), absl::IsUnavailable(status)) << status;
  }
}

}  // namespace
}  // namespace lion
