#include "server/byte_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "server/pushback.h"

namespace lion {
namespace {

using ::testing::HasSubstr;

TEST(ByteAccountTest, RefusesTheFirstByteOverTheLimitAndSaysWhenToTryAgain) {
  ByteAccount account(100);
  const absl::StatusOr<ByteAccount::Charge> first = account.Take(60);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(account.Take(40).ok());
  const absl::Status refused = account.Take(41).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("60 of 100 bytes (--max-inflight-bytes), this one needs 41"));
  const absl::optional<absl::Cord> pushback = refused.GetPayload(kRetryPushbackPayload);
  ASSERT_TRUE(pushback.has_value());
  EXPECT_EQ(std::string(*pushback), "100");
  EXPECT_EQ(account.in_use_bytes(), 60) << "what was refused is not counted";
}

TEST(ByteAccountTest, GivesBackOnceHoweverOftenAChargeIsMoved) {
  ByteAccount account(100);
  {
    ByteAccount::Charge charge = *account.Take(60);
    ByteAccount::Charge other = std::move(charge);
    charge = *account.Take(5);
    std::swap(charge, other);
    EXPECT_EQ(account.in_use_bytes(), 65);
  }
  EXPECT_EQ(account.in_use_bytes(), 0);
}

TEST(ByteAccountTest, WhoIsAloneMayExceedTheLimit) {
  ByteAccount account(100);
  ByteAccount::Charge large = *account.Take(std::numeric_limits<int64_t>::max() / 4);
  EXPECT_TRUE(large.Extend(1000).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(account.Take(1).status()));
}

TEST(ByteAccountTest, ExtendsWithinTheLimitOnlyBesideOthers) {
  ByteAccount account(100);
  const ByteAccount::Charge other = *account.Take(10);
  ByteAccount::Charge charge = *account.Take(50);
  EXPECT_TRUE(absl::IsResourceExhausted(charge.Extend(41)));
  EXPECT_EQ(charge.bytes(), 50);
  EXPECT_TRUE(charge.Extend(40).ok());
  EXPECT_EQ(account.in_use_bytes(), 100);
}

}  // namespace
}  // namespace lion
