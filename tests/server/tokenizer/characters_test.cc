#include <gmock/gmock.h>

#include "tests/server/tokenizer/tokenizer_folder.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MakeTokenizer;
using testing::Offsets;
using testing::Tokens;

TEST(Characters, AccentsFollowLowerCaseUnlessTheConfigurationSaysOtherwise) {
  const std::string words = "naive\nnaïve\nNaïve\nNaive\nschön\nschon\n";
  EXPECT_THAT(Tokens(*MakeTokenizer(words), "Naïve schön"), ElementsAre("naive", "schon"));
  EXPECT_THAT(Tokens(*MakeTokenizer(words, R"({"do_lower_case": false})"), "Naïve schön"),
              ElementsAre("Naïve", "schön"));
  EXPECT_THAT(Tokens(*MakeTokenizer(words, R"({"strip_accents": false})"), "Naïve schön"),
              ElementsAre("naïve", "schön"));
  EXPECT_THAT(Tokens(*MakeTokenizer(words, R"({"do_lower_case": false, "strip_accents": true})"), "Naïve schön"),
              ElementsAre("Naive", "schon"));
}

TEST(Characters, LowerCaseKnowsNeitherLanguageNorContext) {
  const auto tokenizer = MakeTokenizer("οδοσ\nοδος\ni\nı\nß\nss\n");
  EXPECT_THAT(Tokens(*tokenizer, "ΟΔΟΣ οδος I İ ı ẞ ß"), ElementsAre("οδοσ", "οδος", "i", "i", "ı", "ß", "ß"));
  // With accents kept a dotted capital I is two characters.
  EXPECT_THAT(Tokens(*MakeTokenizer("i\n##\u0307\n", R"({"strip_accents": false})"), "İ"),
              ElementsAre("i", "##\u0307"));
}

TEST(Characters, ChineseCharactersAreWordsUnlessSwitchedOff) {
  const std::string words = "你\n好\nworld\n你好world\n";
  EXPECT_THAT(Tokens(*MakeTokenizer(words), "你好world"), ElementsAre("你", "好", "world"));
  EXPECT_THAT(Tokens(*MakeTokenizer(words, R"({"tokenize_chinese_chars": false})"), "你好world"),
              ElementsAre("你好world"));
}

TEST(Characters, EachBlockOfChineseCharactersCounts) {
  const auto tokenizer = MakeTokenizer("a\n");
  for (const char* block_end : {"\u3400", "\u4DBF", "\u4E00", "\u9FFF", "\U00020000", "\U0002A6DF", "\U0002A700",
                                "\U0002B73F", "\U0002B740", "\U0002B81F", "\U0002B920", "\U0002CEAF"}) {
    EXPECT_THAT(Tokens(*tokenizer, "a" + std::string(block_end) + "a"), ElementsAre("a", "[UNK]", "a")) << block_end;
  }
  for (const char* outside : {"\u33FF", "\u4DC0", "\uA000", "\U0002A6E0", "\U0002B820", "\u3042", "\uAC00"}) {
    EXPECT_THAT(Tokens(*tokenizer, "a" + std::string(outside) + "a"), ElementsAre("[UNK]")) << outside;
  }
}

TEST(Characters, HangulIsSyllablesWithAccentsAndLettersWithout) {
  const std::string pieces = "각\n\u1100\n##\u1161\n##\u11a8\n";
  EXPECT_THAT(Tokens(*MakeTokenizer(pieces), "각"), ElementsAre("\u1100", "##\u1161", "##\u11a8"));
  EXPECT_THAT(Offsets(*MakeTokenizer(pieces), "각", {.special_tokens = false}), ElementsAre("0-3", "0-3", "0-3"));
  EXPECT_THAT(Tokens(*MakeTokenizer(pieces, R"({"strip_accents": false})"), "각"), ElementsAre("각"));
}

TEST(Characters, ControlAndFormatCharactersVanishWithinAWord) {
  const auto tokenizer = MakeTokenizer("ab\n");
  for (const char* gone :
       {"\a", "\x7f", "\u0085", "\u00ad", "\u200b", "\u200d", "\ufeff", "\ufffd", "\ue000", "\v", "\f"}) {
    EXPECT_THAT(Tokens(*tokenizer, "a" + std::string(gone) + "b"), ElementsAre("ab"));
    EXPECT_THAT(Tokens(*tokenizer, gone), IsEmpty());
  }
  EXPECT_THAT(Tokens(*tokenizer, std::string_view("a\0b", 3)), ElementsAre("ab"));
}

TEST(Characters, EveryWhiteSpaceSeparates) {
  const auto tokenizer = MakeTokenizer("a\nb\n");
  for (const char* space : {" ", "\t", "\n", "\r", "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028", "\u2029", "\u202f",
                            "\u205f", "\u3000"}) {
    EXPECT_THAT(Tokens(*tokenizer, "a" + std::string(space) + "b"), ElementsAre("a", "b"));
  }
}

TEST(Characters, PunctuationStandsAloneAndSymbolsOfAsciiAreSome) {
  const auto tokenizer = MakeTokenizer("a\n.\n$\n«\n…\n€\n=\n");
  EXPECT_THAT(Tokens(*tokenizer, "a..a$a«a…"), ElementsAre("a", ".", ".", "a", "$", "a", "«", "a", "…"));
  EXPECT_THAT(Tokens(*tokenizer, "a€a"), ElementsAre("[UNK]"));
  // What decomposition makes of a character counts: this is an equals sign and a stroke.
  EXPECT_THAT(Tokens(*tokenizer, "a≠a"), ElementsAre("a", "=", "a"));
}

TEST(Characters, CanonicalOrderMovesMarksAndLeavesTheirPlaces) {
  const auto tokenizer = MakeTokenizer("a\n##b\n##\u302e\n##\U0001d165\n");
  EXPECT_THAT(Tokens(*tokenizer, "a\u302e\U0001d165b"), ElementsAre("a", "##\U0001d165", "##\u302e", "##b"));
  EXPECT_THAT(Offsets(*tokenizer, "a\u302e\U0001d165b", {.special_tokens = false}),
              ElementsAre("0-1", "1-4", "4-8", "8-9"));
  // The acute is dropped, but the tone mark has moved to where it stood.
  EXPECT_THAT(Offsets(*tokenizer, "a\u0301\u302eb", {.special_tokens = false}), ElementsAre("0-1", "1-3", "6-7"));
}

TEST(Characters, CanonicalOrderOfManyClassesKeepsThePlacesOfDroppedMarksToo) {
  const auto tokenizer = MakeTokenizer("a\n##b\n##\u1b44\n##\U0001d165\n##\u302e\n");
  // Between them a joiner, which is cleaned away, and a mark that is two, both dropped.
  const std::string text = "a\u302e\u200d\u0344\U0001d165\u1b44\u0301b";
  EXPECT_THAT(Tokens(*tokenizer, text), ElementsAre("a", "##\u1b44", "##\U0001d165", "##\u302e", "##b"));
  EXPECT_THAT(Offsets(*tokenizer, text, {.special_tokens = false}), ElementsAre("0-1", "1-4", "7-9", "9-13", "18-19"));
}

}  // namespace
}  // namespace lion
