// vocab.txt and tokenizer_config.json.
#include <gmock/gmock.h>

#include "tests/server/tokenizer/tokenizer_folder.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kSpecialTokens;
using testing::MakeTokenizer;
using testing::TempFolder;
using testing::Tokens;

absl::Status LoadStatus(const std::string& vocabulary, const std::string& config) {
  const TempFolder folder;
  folder.Write("vocab.txt", vocabulary);
  if (!config.empty()) folder.Write("tokenizer_config.json", config);
  return Tokenizer::Load(folder.path()).status();
}

void ExpectRefused(const std::string& vocabulary, const std::string& config, const std::string& why) {
  const absl::Status status = LoadStatus(vocabulary, config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(Vocabulary, NoFilesIsNotFound) {
  const TempFolder folder;
  const auto tokenizer = Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("vocab.txt"));
}

TEST(Vocabulary, WindowsLineEndsAndAMissingLastOne) {
  const TempFolder folder;
  folder.Write("vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\na");
  const auto tokenizer = *Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer->vocabulary(), 5);
  EXPECT_THAT(Tokens(*tokenizer, "a b", {}), ElementsAre("[CLS]", "a", "[UNK]", "[SEP]"));
  EXPECT_EQ(tokenizer->mask_id(), std::nullopt);
}

TEST(Vocabulary, OfEqualLinesTheLastCounts) {
  EXPECT_THAT(MakeTokenizer("a\nb\na\n")->Encode("a", std::nullopt, {})->ids, ElementsAre(2, 7, 3));
}

TEST(Vocabulary, WhatBertNeedsMustBeThere) {
  ExpectRefused("[CLS]\n[SEP]\n", "", R"(vocab.txt: no line is "[UNK]", which BERT needs)");
  ExpectRefused("[UNK]\n[SEP]\n", "", R"(no line is "[CLS]")");
  ExpectRefused("[UNK]\n[CLS]\n", "", R"(no line is "[SEP]")");
  ExpectRefused("", "", R"(no line is "[UNK]")");
  ExpectRefused(kSpecialTokens + "a\n\xff\n", "", "vocab.txt: line 7 is not UTF-8");
}

TEST(Vocabulary, TheConfigurationNamesSpecialTokensAsTextsOrObjects) {
  const TempFolder folder;
  folder.Write("vocab.txt", "<unk>\n<s>\n</s>\n<mask>\na\n");
  folder.Write("tokenizer_config.json", R"({"unk_token": "<unk>", "cls_token": {"content": "<s>", "lstrip": false},
      "sep_token": "</s>", "mask_token": {"__type": "AddedToken", "content": "<mask>", "normalized": false}})");
  const auto tokenizer = *Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer->mask_id(), 3);
  EXPECT_THAT(Tokens(*tokenizer, "a b<mask>", {.mask_token_in_text = true}),
              ElementsAre("<s>", "a", "<unk>", "<mask>", "</s>"));
}

TEST(Vocabulary, MaskTokenOfTheConfiguration) {
  EXPECT_EQ(MakeTokenizer("", R"({"mask_token": null})")->mask_id(), std::nullopt);
  ExpectRefused(kSpecialTokens, R"({"mask_token": "<mask>"})", R"(mask_token is "<mask>", which)");
  ExpectRefused(kSpecialTokens, R"({"mask_token": {"content": "[MASK]", "normalized": true}})",
                R"(the mask token "[MASK]" has normalized true, expected false)");
  ExpectRefused(kSpecialTokens, R"({"added_tokens_decoder": {"4": {"content": "[MASK]", "single_word": true}}})",
                "has single_word true");
  ExpectRefused(kSpecialTokens, R"({"mask_token": 4})", "mask_token is 4, expected a text or an object");
  ExpectRefused(kSpecialTokens, R"({"mask_token": ""})", R"(mask_token is "", expected the text of a token)");
}

TEST(Vocabulary, LongestText) {
  EXPECT_EQ(MakeTokenizer("")->max_tokens(), 0);
  EXPECT_EQ(MakeTokenizer("", R"({"model_max_length": 512})")->max_tokens(), 512);
  EXPECT_EQ(MakeTokenizer("", R"({"model_max_length": 128.0})")->max_tokens(), 128);
  EXPECT_EQ(MakeTokenizer("", R"({"model_max_length": 1e30})")->max_tokens(), 0);
  EXPECT_EQ(MakeTokenizer("", R"({"model_max_length": 1000000000000000019884624838656})")->max_tokens(), 0);
  for (const char* length : {"0", "-1", "1.5", "\"512\"", "[]"}) {
    ExpectRefused(kSpecialTokens, R"({"model_max_length": )" + std::string(length) + "}",
                  "expected a whole number from 1");
  }
}

TEST(Vocabulary, WhatTheConfigurationMayNotSay) {
  ExpectRefused(kSpecialTokens, R"({"do_lower_case": "yes"})",
                R"(tokenizer_config.json: do_lower_case is "yes", expected true or false)");
  ExpectRefused(kSpecialTokens, R"({"strip_accents": 1})", "strip_accents is 1, expected true or false");
  ExpectRefused(kSpecialTokens, R"({"tokenizer_class": "RobertaTokenizer"})",
                R"(tokenizer_class is "RobertaTokenizer", expected BertTokenizer or tokenizer.json)");
  ExpectRefused(kSpecialTokens, R"({"do_basic_tokenize": false})", "do_basic_tokenize is false, expected true");
  ExpectRefused(kSpecialTokens, R"({"never_split": ["a"]})", "never_split is an array of 1 items");
  ExpectRefused(kSpecialTokens, R"({"added_tokens_decoder": {"5": {"content": "new", "special": false}}})",
                "added_tokens_decoder.5.special is false");
  ExpectRefused(kSpecialTokens, "{", "tokenizer_config.json: JSON");
  ExpectRefused(kSpecialTokens, "[]", "tokenizer_config.json: holds JSON of type array, expected an object");
  EXPECT_TRUE(
      LoadStatus(kSpecialTokens, R"({"tokenizer_class": "BertTokenizer", "strip_accents": null, "x": 1})").ok());
}

}  // namespace
}  // namespace lion
