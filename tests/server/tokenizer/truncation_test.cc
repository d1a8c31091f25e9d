#include <gmock/gmock.h>

#include "server/tokenizer/truncate.h"
#include "tests/server/tokenizer/tokenizer_folder.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeTokenizer;
using testing::Tokens;

std::string Words(int count) {
  std::string words;
  for (int i = 0; i < count; ++i) words += " w" + std::to_string(i);
  return words;
}

// w0 to w599, ids from 5.
const Tokenizer& Numbered() {
  static const auto* const kTokenizer = [] {
    std::string lines;
    for (int i = 0; i < 600; ++i) lines += "w" + std::to_string(i) + "\n";
    return MakeTokenizer(lines).release();
  }();
  return *kTokenizer;
}

TEST(Truncation, SpecialTokensCount) {
  for (const int words : {509, 510, 511}) {
    const auto encoding =
        Numbered().Encode(Words(words), std::nullopt, {.max_tokens = 512, .truncation = TextTruncation::kEnd});
    EXPECT_EQ(encoding->ids.size(), static_cast<size_t>(std::min(words, 510) + 2));
    EXPECT_EQ(encoding->truncated, words > 510);
    EXPECT_EQ(encoding->ids.back(), 3);
    EXPECT_EQ(Numbered().Encode(Words(words), std::nullopt, {.max_tokens = 512}).ok(), words <= 510);
  }
}

TEST(Truncation, TooLongATextIsRefusedWithBothNumbers) {
  const auto encoding = Numbered().Encode(Words(511), std::nullopt, {.max_tokens = 512});
  EXPECT_EQ(encoding.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(encoding.status().message(), "the text is 513 tokens long, at most 512 are allowed");
  EXPECT_EQ(Numbered().Encode(Words(3), Words(4), {.max_tokens = 9}).status().message(),
            "the texts are 10 tokens long, at most 9 are allowed");
}

TEST(Truncation, EitherSide) {
  const EncodeOptions end = {.max_tokens = 4, .truncation = TextTruncation::kEnd};
  const EncodeOptions start = {.max_tokens = 4, .truncation = TextTruncation::kStart};
  EXPECT_THAT(Tokens(Numbered(), Words(500), end), ElementsAre("[CLS]", "w0", "w1", "[SEP]"));
  EXPECT_THAT(Tokens(Numbered(), Words(500), start), ElementsAre("[CLS]", "w498", "w499", "[SEP]"));
  const auto encoding = Numbered().Encode(Words(12), std::nullopt,
                                          {.max_tokens = 4, .truncation = TextTruncation::kStart, .offsets = true});
  EXPECT_EQ(encoding->offsets[1].begin, 31u);
  EXPECT_EQ(encoding->offsets[0].end, 0u);
}

TEST(Truncation, NoRoomForAnything) {
  for (const auto truncation : {TextTruncation::kEnd, TextTruncation::kStart}) {
    EXPECT_THAT(Tokens(Numbered(), "w1", {.max_tokens = 2, .truncation = truncation}), ElementsAre("[CLS]", "[SEP]"));
    EXPECT_TRUE(Numbered().Encode("w1", "w2", {.max_tokens = 3, .truncation = truncation})->truncated);
    const auto refused = Numbered().Encode("w1", "w2", {.max_tokens = 2, .truncation = truncation});
    EXPECT_EQ(refused.status().message(), "at most 2 tokens: there is no room for the 3 special tokens");
    EXPECT_FALSE(Numbered().Encode("w1", std::nullopt, {.max_tokens = -1, .truncation = truncation}).ok());
  }
}

// By the definition: a token from the longer text, again and again. `odd_to_first`: who gives way when both are equal.
PairLengths TokenByToken(PairLengths lengths, int64_t room, bool odd_to_first) {
  while (lengths.first + lengths.second > room) {
    const bool from_first = lengths.first == lengths.second ? !odd_to_first : lengths.first > lengths.second;
    --(from_first ? lengths.first : lengths.second);
  }
  return lengths;
}

TEST(Truncation, OfAPairTheLongerIsCutTokenByToken) {
  for (int64_t first = 0; first < 12; ++first) {
    for (int64_t second = 0; second < 12; ++second) {
      for (int64_t room = 0; room < 25; ++room) {
        const PairLengths expected = TokenByToken({first, second}, room, first > second);
        const PairLengths found = CutLongest({first, second}, room);
        EXPECT_EQ(found.first, expected.first) << first << " " << second << " " << room;
        EXPECT_EQ(found.second, expected.second) << first << " " << second << " " << room;
      }
    }
  }
}

TEST(Truncation, ReadingOnlyTheBeginningGivesWhatReadingAllWould) {
  for (const int first : {0, 1, 4, 5, 6, 7, 30, 31}) {
    for (const int second : {0, 1, 4, 5, 6, 7, 30, 31}) {
      for (const int64_t max_tokens : {7, 8, 9, 10, 13, 14}) {
        const auto encoding = Numbered().Encode(Words(first), Words(second),
                                                {.max_tokens = max_tokens, .truncation = TextTruncation::kEnd});
        const PairLengths kept = CutLongest({first, second}, max_tokens - 3);
        EXPECT_EQ(std::count(encoding->type_ids.begin(), encoding->type_ids.end(), 0), kept.first + 2);
        EXPECT_EQ(std::count(encoding->type_ids.begin(), encoding->type_ids.end(), 1), kept.second + 1);
      }
    }
  }
}

TEST(Truncation, AMaskCutAwayIsNotThere) {
  const auto encoding =
      Numbered().Encode("w1 w2 [MASK] w3", std::nullopt,
                        {.mask_token_in_text = true, .max_tokens = 4, .truncation = TextTruncation::kEnd});
  EXPECT_THAT(encoding->ids, ElementsAre(2, 6, 7, 3));
}

}  // namespace
}  // namespace lion
