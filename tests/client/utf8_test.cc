#include "client/cli/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace lion {
namespace {

std::string Encode(uint32_t code) {
  const auto tail = [code](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | (code >> 6)), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | (code >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (code >> 18)), tail(12), tail(6), tail(0)};
}

TEST(FindInvalidUtf8Test, EveryCodePointIsValidAndNoSurrogateIs) {
  for (uint32_t code = 0; code < 0x120000; ++code) {
    const bool valid = code < 0x110000 && (code < 0xD800 || code >= 0xE000);
    ASSERT_EQ(FindInvalidUtf8("x" + Encode(code) + "y"), valid ? std::nullopt : std::optional<size_t>(1)) << code;
    if (valid) {
      ASSERT_EQ(NextCodePoint("x" + Encode(code) + "y", 1), 1 + Encode(code).size()) << code;
    }
  }
}

TEST(FindInvalidUtf8Test, SaysWhereTheFirstFaultBegins) {
  const std::pair<std::string, size_t> cases[] = {
      {"\xff", 0},       {"a\x80", 1},        {"\u00e9\xc3", 2},       {"\xc3(", 0},
      {"ab\xe2\x82", 2}, {"\xe2\x28\xa1", 0}, {"\xf0\x9f\x98", 0},     {"\xc0\x80", 0},
      {"\xc1\xbf", 0},   {"\xe0\x9f\xbf", 0}, {"\xf0\x8f\xbf\xbf", 0}, {"\xf5\x80\x80\x80", 0},
      {"ok\n\xfe", 3}};
  for (const auto& [text, want] : cases) EXPECT_EQ(FindInvalidUtf8(text), want) << want;
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8(std::string("a\0b", 3)), std::nullopt);
}

}  // namespace
}  // namespace lion
