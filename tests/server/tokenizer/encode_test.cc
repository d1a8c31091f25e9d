#include <gmock/gmock.h>

#include "tests/server/tokenizer/tokenizer_folder.h"

namespace lion {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeTokenizer;
using testing::Offsets;
using ::testing::SizeIs;
using testing::Tokens;

TEST(Encode, LongestPiecesFromLeftToRight) {
  const auto tokenizer = MakeTokenizer("un\n##aff\n##able\n##a\nunaff\n");
  EXPECT_THAT(Tokens(*tokenizer, "unaffable"), ElementsAre("unaff", "##able"));
  EXPECT_THAT(Tokens(*tokenizer, "unaable"), ElementsAre("un", "##a", "##able"));
}

TEST(Encode, AWordWithOneUnknownPieceIsUnknownAsAWhole) {
  const auto tokenizer = MakeTokenizer("un\n##a\nb\n");
  EXPECT_THAT(Tokens(*tokenizer, "una unab b"), ElementsAre("un", "##a", "[UNK]", "b"));
  EXPECT_THAT(Offsets(*tokenizer, "unab b", {.special_tokens = false}), ElementsAre("0-4", "5-6"));
  EXPECT_THAT(Tokens(*tokenizer, "##a"), ElementsAre("[UNK]", "[UNK]", "[UNK]"));
}

TEST(Encode, AWordOfMoreThanAHundredCharactersIsUnknown) {
  const auto tokenizer = MakeTokenizer("a\n##a\né\n##é\n", R"({"strip_accents": false})");
  EXPECT_THAT(Tokens(*tokenizer, std::string(100, 'A')), SizeIs(100));
  EXPECT_THAT(Tokens(*tokenizer, std::string(101, 'A')), ElementsAre("[UNK]"));
  EXPECT_THAT(Offsets(*tokenizer, std::string(101, 'A') + " a", {.special_tokens = false}),
              ElementsAre("0-101", "102-103"));
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "é";
  EXPECT_THAT(Tokens(*tokenizer, accents), SizeIs(100));
  EXPECT_THAT(Tokens(*tokenizer, accents + "é"), ElementsAre("[UNK]"));
}

TEST(Encode, SpecialTokensAndTypesOfATextAndOfAPair) {
  const auto tokenizer = MakeTokenizer("a\nb\n");
  const auto single = tokenizer->Encode("a b", std::nullopt, {});
  EXPECT_THAT(single->ids, ElementsAre(2, 5, 6, 3));
  EXPECT_THAT(single->type_ids, ElementsAre(0, 0, 0, 0));
  EXPECT_FALSE(single->truncated);
  const auto pair = tokenizer->Encode("a b", "b", {.offsets = true});
  EXPECT_THAT(pair->ids, ElementsAre(2, 5, 6, 3, 6, 3));
  EXPECT_THAT(pair->type_ids, ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_EQ(pair->offsets[0].end, 0u);
  EXPECT_EQ(pair->offsets[4].begin, 0u);
  EXPECT_EQ(pair->offsets[4].end, 1u);
  const auto bare = tokenizer->Encode("a", "b", {.special_tokens = false});
  EXPECT_THAT(bare->ids, ElementsAre(5, 6));
  EXPECT_THAT(bare->type_ids, ElementsAre(0, 1));
}

TEST(Encode, ATextOfNothingIsItsSpecialTokens) {
  const auto tokenizer = MakeTokenizer("a\n");
  for (const std::string& text : {std::string(), std::string(" \t\n"), std::string("\0", 1), std::string("\u200b")}) {
    EXPECT_THAT(Tokens(*tokenizer, text, {}), ElementsAre("[CLS]", "[SEP]"));
    EXPECT_THAT(Offsets(*tokenizer, text), ElementsAre("0-0", "0-0"));
  }
  EXPECT_THAT(tokenizer->Encode("", "", {})->ids, ElementsAre(2, 3, 3));
}

TEST(Encode, OffsetsAreBytesOfTheText) {
  const auto tokenizer = MakeTokenizer("eleve\na\n##b\n.\n");
  EXPECT_THAT(Offsets(*tokenizer, " ÉLÈVE. a\ab"), ElementsAre("0-0", "1-8", "8-9", "10-11", "12-13", "0-0"));
  EXPECT_THAT(Offsets(*tokenizer, "e\u0301le\u0300ve"), ElementsAre("0-0", "0-9", "0-0"));
}

TEST(Encode, SpecialTokensInTextAreText) {
  const auto tokenizer = MakeTokenizer("[\n]\nmask\ncls\n");
  EXPECT_THAT(Tokens(*tokenizer, "[MASK][CLS]"), ElementsAre("[", "mask", "]", "[", "cls", "]"));
}

TEST(Encode, TheMaskTokenIsFoundInTextWhereWanted) {
  const auto tokenizer = MakeTokenizer("[\n]\nmask\ncls\na\n##a\n");
  const EncodeOptions options = {.special_tokens = false, .mask_token_in_text = true};
  EXPECT_THAT(Tokens(*tokenizer, "a[MASK]a [CLS] [mask] [[MASK]]", options),
              ElementsAre("a", "[MASK]", "a", "[", "cls", "]", "[", "mask", "]", "[", "[MASK]", "]"));
  EXPECT_THAT(Offsets(*tokenizer, "é [MASK] a", options), ElementsAre("0-2", "3-9", "10-11"));
  EXPECT_THAT(Tokens(*tokenizer, "[MASK]", options), ElementsAre("[MASK]"));
}

TEST(Encode, AMaskTokenMayTakeTheSpaceBesideIt) {
  const auto tokenizer =
      MakeTokenizer("a\n", R"({"mask_token": {"content": "[MASK]", "lstrip": true, "rstrip": true}})");
  const EncodeOptions options = {.special_tokens = false, .mask_token_in_text = true};
  EXPECT_THAT(Offsets(*tokenizer, "a \u00a0[MASK] [MASK] \ta", options), ElementsAre("0-1", "1-11", "11-19", "19-20"));
}

TEST(Encode, WhatIsNotUtf8IsRefusedWithItsPlace) {
  const auto tokenizer = MakeTokenizer("a\n");
  for (const char* text : {"ab\xff", "ab\xc3", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\x80"}) {
    const auto encoding = tokenizer->Encode(text, std::nullopt, {.max_tokens = 2, .truncation = TextTruncation::kEnd});
    EXPECT_EQ(encoding.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(encoding.status().message()), HasSubstr("at position 2 begins no character"));
    EXPECT_FALSE(tokenizer->Encode("a", text, {}).ok());
  }
}

TEST(Encode, NoTextCostsMoreThanItsLength) {
  const auto tokenizer = MakeTokenizer("a\n##a\n.\n##aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n");
  constexpr size_t kBytes = 4'000'000;
  std::string marks;
  while (marks.size() < kBytes) marks += "\u302e\u302f";
  std::string tones = "a";
  while (tones.size() < kBytes) tones += "\U0001d165\u302e\u0301";
  std::string words;
  while (words.size() < kBytes) words += std::string(100, 'a') + " ";
  EXPECT_THAT(Tokens(*tokenizer, std::string(kBytes, 'a')), ElementsAre("[UNK]"));
  EXPECT_THAT(Tokens(*tokenizer, marks), ElementsAre("[UNK]"));
  EXPECT_THAT(Tokens(*tokenizer, tones), ElementsAre("[UNK]"));
  EXPECT_EQ(tokenizer->Encode(words, std::nullopt, {})->ids.size(), words.size() / 101 * 100 + 2);
  EXPECT_EQ(tokenizer->Encode(std::string(kBytes, '.'), std::nullopt, {})->ids.size(), kBytes + 2);
}

TEST(Encode, TokenTextIsEmptyForIdsThatThereAreNot) {
  const auto tokenizer = MakeTokenizer("a\n##a\n");
  EXPECT_EQ(tokenizer->vocabulary(), 7);
  EXPECT_EQ(tokenizer->TokenText(6), "##a");
  EXPECT_EQ(tokenizer->TokenText(7), "");
  EXPECT_EQ(tokenizer->TokenText(-1), "");
  EXPECT_EQ(tokenizer->mask_id(), 4);
}

}  // namespace
}  // namespace lion
