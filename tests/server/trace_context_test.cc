// W3C Trace Context, level 1, section 3.2: what is a traceparent and what is not.
#include "server/rpc/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace lion {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kGood[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

std::string With(size_t at, const std::string& text) { return std::string(kGood).replace(at, text.size(), text); }

TEST(TraceContextTest, TakesWhatTheStandardSays) {
  EXPECT_EQ(TraceIdOf(kGood), kTrace);
  EXPECT_EQ(TraceIdOf(With(53, "00")), kTrace) << "not sampled";
  EXPECT_EQ(TraceIdOf(With(53, "ff")), kTrace) << "flags of later versions";
}

TEST(TraceContextTest, TakesLaterVersionsThatBeginAsThisOne) {
  EXPECT_EQ(TraceIdOf(With(0, "01")), kTrace);
  EXPECT_EQ(TraceIdOf(With(0, "cc") + "-what-the-future-brings"), kTrace);
  EXPECT_EQ(TraceIdOf(With(0, "cc") + "."), "");
  EXPECT_EQ(TraceIdOf(std::string(kGood) + "-more"), "") << "version 00 is of this length";
  EXPECT_EQ(TraceIdOf(With(0, "ff")), "");
}

TEST(TraceContextTest, EveryOtherByteMakesItNone) {
  const std::string good = kGood;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char c : {'g', 'A', ' ', '_', '\0', '\xff'}) {
      EXPECT_EQ(TraceIdOf(With(at, std::string(1, c))), "") << at << " " << c;
    }
    EXPECT_EQ(TraceIdOf(good.substr(0, at)), "") << at;
    EXPECT_EQ(TraceIdOf(With(at, good[at] == '-' ? "0" : "-")), "") << at;
  }
  EXPECT_EQ(TraceIdOf(good + " "), "");
}

TEST(TraceContextTest, IdsOfZerosAreNone) {
  EXPECT_EQ(TraceIdOf(With(3, std::string(32, '0'))), "");
  EXPECT_EQ(TraceIdOf(With(36, std::string(16, '0'))), "");
}

}  // namespace
}  // namespace lion
