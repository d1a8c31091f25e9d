#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/cli/text.h"

namespace lion {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(FormatTableTest, AlignsColumnsAndKeepsThem) {
  std::vector<size_t> widths;
  EXPECT_EQ(FormatTable({{"name", "n"}, {"\u00e9", "100", "x"}, {}}, "lr", widths),
            "name    n\n"
            "\u00e9     100  x\n"
            "\n");
  EXPECT_EQ(FormatTable({{"a", "1", "yy"}}, "lr", widths), "a       1  yy\n");
}

TEST(PrintableTest, TakesAwayControlCharacters) {
  EXPECT_EQ(Printable("a\x1b[2Jb\n\x7f\u00e9 c"), "a?[2Jb??\u00e9 c");
  EXPECT_EQ(Printable("\xC2\x80\xC2\x9F\xC2\xA0"), "??\xC2\xA0");  // U+0080, U+009F, U+00A0
  EXPECT_EQ(Printable("\xC2"), "\xC2");
}

TEST(ShortenTest, LeavesOutTheEnd) {
  EXPECT_EQ(Shorten("", 3), "");
  EXPECT_EQ(Shorten("abc", 3), "abc");
  EXPECT_EQ(Shorten("abcd", 3), "ab\u2026");
  EXPECT_EQ(Shorten("\u00e9\u00e9\u00e9", 3), "\u00e9\u00e9\u00e9");
  EXPECT_EQ(Shorten("\u00e9\u00e9\u00e9\u00e9", 3), "\u00e9\u00e9\u2026");
  EXPECT_EQ(Shorten("abcd", 1), "\u2026");
}

TEST(FormatCountTest, ShortensLargeNumbers) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(21'300), "21.3 k");
  EXPECT_EQ(FormatCount(5'526'346), "5.5 M");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{3} << 30), "3.0 GiB");
}

TEST(FormatScoreTest, PercentOrPlain) {
  EXPECT_EQ(FormatScore(0.9984f, true), "99.8 %");
  EXPECT_EQ(FormatScore(-3.14159f, false), "-3.1416");
}

TEST(AppendJsonFloatTest, IsShortAndExact) {
  std::string text;
  for (const float value : {0.1f, -0.0f, 1.0f, 16777216.0f, 1e-38f, 3.4028235e38f}) {
    text.clear();
    AppendJsonFloat(value, text);
    EXPECT_EQ(std::strtof(text.c_str(), nullptr), value) << text;
    EXPECT_LE(text.size(), 15u);
  }
  text.clear();
  AppendJsonFloat(0.1f, text);
  AppendJsonFloat(NAN, text);
  EXPECT_EQ(text, "0.1null");
}

TEST(FormatProgressTest, GivesRateAndRest) {
  EXPECT_EQ(FormatProgress(0, 100, 0, milliseconds(0), "files"), "0/100  0 %");
  EXPECT_EQ(FormatProgress(25, 100, 2, milliseconds(500), "files"), "25/100  25 %  50 files/s  2 s left  2 failed");
  EXPECT_EQ(FormatProgress(1, 3, 0, milliseconds(2000), "texts"), "1/3  33 %  0.5 texts/s  4 s left");
  EXPECT_EQ(FormatProgress(25, std::nullopt, 2, milliseconds(500), "texts"), "25  50 texts/s  2 failed");
  EXPECT_EQ(FormatProgress(0, std::nullopt, 0, milliseconds(0), "texts"), "0");
}

TEST(ExplainErrorTest, AdvisesWhatToDo) {
  EXPECT_EQ(ExplainError(absl::UnavailableError("failed to connect to all addresses"), "localhost:8001"),
            "cannot connect to localhost:8001: is the server running? (failed to connect to all addresses)");
  EXPECT_THAT(ExplainError(absl::UnavailableError("draining"), "h:1"),
              HasSubstr("UNAVAILABLE: draining (the server at h:1 is starting, stopping"));
  EXPECT_THAT(ExplainError(absl::DeadlineExceededError("Deadline Exceeded"), "h:1"), HasSubstr("--timeout-ms"));
  EXPECT_EQ(ExplainError(absl::NotFoundError("no model x"), "h:1"), "NOT_FOUND: no model x");
}

}  // namespace
}  // namespace lion
