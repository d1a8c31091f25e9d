#include "model_loader/utf8.h"

#include <gmock/gmock.h>

#include <string>

namespace lion {
namespace {

using ::testing::HasSubstr;

// UTF-8 of a code point by the definition's bit patterns, whether or not it is allowed.
std::string Encode(uint32_t point) {
  if (point < 0x80) return {static_cast<char>(point)};
  std::string text;
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  const uint32_t lead[] = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(lead[more] | point >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (point >> (6 * i) & 0x3F));
  return text;
}

TEST(Utf8Prefix, TakesEveryCodePointButSurrogates) {
  for (uint32_t point = 0; point < 0x120000; ++point) {
    const std::string text = Encode(point);
    const bool valid = point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
    ASSERT_EQ(Utf8Prefix(text), valid ? text.size() : 0) << std::hex << point;
  }
}

TEST(Utf8Prefix, EndsWhereTheTextIsBroken) {
  EXPECT_EQ(Utf8Prefix(""), 0u);
  EXPECT_EQ(Utf8Prefix("abc"), 3u);
  EXPECT_EQ(Utf8Prefix("ab\xc3\xa9"
                       "c\xe2\x82"),
            5u);                       // cut off
  EXPECT_EQ(Utf8Prefix("a\x80"), 1u);  // no first byte
  EXPECT_EQ(Utf8Prefix("a\xe2\x82"
                       "b"),
            1u);  // a byte too few
  for (const char* overlong : {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf"}) {
    EXPECT_EQ(Utf8Prefix(overlong), 0u);
  }
  for (const char* never : {"\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xfe", "\xff"})
    EXPECT_EQ(Utf8Prefix(never), 0u);
}

TEST(CheckUtf8File, NamesThePlace) {
  EXPECT_TRUE(CheckUtf8File("f", "a\nb\xc3\xa9\n").ok());
  EXPECT_THAT(std::string(CheckUtf8File("d/f.txt", "a\n\nb\xe9\nc").message()),
              HasSubstr("d/f.txt: line 3 is not UTF-8: byte 0xe9"));
}

}  // namespace
}  // namespace lion
