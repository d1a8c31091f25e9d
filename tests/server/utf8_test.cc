#include "server/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace lion {
namespace {

TEST(Utf8Test, CutsBeforeACharacterAndNeverInside) {
  EXPECT_EQ(CutUtf8("abc", 3), "abc");
  EXPECT_EQ(CutUtf8("abcd", 3), "abc...");
  // U+1F44D takes 4 bytes.
  const std::string thumb = "\xf0\x9f\x91\x8d";
  for (size_t bytes = 1; bytes <= 4; ++bytes) EXPECT_EQ(CutUtf8("a" + thumb + "b", bytes), "a...") << bytes;
  EXPECT_EQ(CutUtf8("a" + thumb + "b", 5), "a" + thumb + "...");
  EXPECT_EQ(CutUtf8("\x80\x80\x80", 2), "...") << "not UTF-8 at all";
}

TEST(Utf8Test, PrintableMeansValidAndWithoutControlCharacters) {
  for (const char* good : {"", "lion-s", "L\xc3\xb6we 2", "\xe7\x8b\xae", "\xf0\x9f\xa6\x81", "\xf4\x8f\xbf\xbf", "~",
                           "\xc2\xa0", "\xed\x9f\xbf", "\xee\x80\x80"}) {
    EXPECT_TRUE(IsPrintableUtf8(good)) << good;
  }
  for (const char* bad : {
           "\n",
           "a\tb",
           "\x1b[31m",
           "\x7f",
           "\xc2\x80",
           "\xc2\x9f",  // control characters
           "\x80",
           "\xff",
           "\xfe",
           "\xf8\x88\x80\x80\x80",  // no first byte
           "\xc3",
           "\xe7\x8b",
           "\xf0\x9f\xa6",
           "\xc3(",
           "\xe7\x8b(",  // cut off
           "\xc0\xaf",
           "\xe0\x80\xaf",
           "\xf0\x80\x80\xaf",  // overlong
           "\xed\xa0\x80",
           "\xed\xbf\xbf",      // surrogates
           "\xf4\x90\x80\x80",  // over U+10FFFF
       }) {
    EXPECT_FALSE(IsPrintableUtf8(bad)) << ::testing::PrintToString(bad);
  }
  EXPECT_FALSE(IsPrintableUtf8(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace lion
