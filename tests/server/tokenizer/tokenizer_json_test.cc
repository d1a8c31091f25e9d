#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/server/tokenizer/tokenizer_folder.h"

namespace lion {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::Tokens;

// As the package `tokenizers` writes it for an uncased BERT.
Json Bert() {
  return Json::parse(R"({
    "version": "1.0",
    "truncation": null,
    "padding": {"strategy": "BatchLongest", "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
    "added_tokens": [
      {"id": 4, "content": "[MASK]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
       "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                   "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
      "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
      "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                         "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100,
              "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5, "##b": 6, "É": 7, "é": 8,
                        "e": 9, "你a": 10}}})");
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const Json& json, const std::string& config = "") {
  const TempFolder folder;
  folder.Write("tokenizer.json", json.dump());
  if (!config.empty()) folder.Write("tokenizer_config.json", config);
  return Tokenizer::Load(folder.path());
}

// Bert() with another value at this place.
Json With(const std::string& place, const Json& value) {
  Json json = Bert();
  json[Json::json_pointer(place)] = value;
  return json;
}

void ExpectRefused(const Json& json, const std::string& why, const std::string& config = "") {
  const auto tokenizer = Load(json, config);
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << why;
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.json: " + why));
}

TEST(TokenizerJson, IsReadAsItIsWritten) {
  const auto tokenizer = *Load(Bert());
  EXPECT_EQ(tokenizer->vocabulary(), 11);
  EXPECT_EQ(tokenizer->max_tokens(), 0);
  EXPECT_EQ(tokenizer->mask_id(), 4);
  EXPECT_THAT(Tokens(*tokenizer, "AB É 你a", {}), ElementsAre("[CLS]", "a", "##b", "e", "[UNK]", "a", "[SEP]"));
}

TEST(TokenizerJson, StandsBeforeVocabTxt) {
  const TempFolder folder;
  folder.Write("tokenizer.json", Bert().dump());
  folder.Write("vocab.txt", "nothing of use\n");
  EXPECT_EQ((*Tokenizer::Load(folder.path()))->vocabulary(), 11);
}

TEST(TokenizerJson, FlagsOfTheNormalizer) {
  EXPECT_THAT(Tokens(**Load(With("/normalizer/strip_accents", false)), "É"), ElementsAre("é"));
  EXPECT_THAT(Tokens(**Load(With("/normalizer/lowercase", false)), "É"), ElementsAre("É"));
  EXPECT_THAT(Tokens(**Load(With("/normalizer/handle_chinese_chars", false)), "你a"), ElementsAre("你a"));
  EXPECT_THAT(Tokens(**Load(Bert()), "a\u200bb"), ElementsAre("a", "##b"));
  EXPECT_THAT(Tokens(**Load(With("/normalizer/clean_text", false)), "a\u200bb"), ElementsAre("[UNK]"));
}

TEST(TokenizerJson, SettingsOfTheModel) {
  EXPECT_THAT(Tokens(**Load(With("/model/max_input_chars_per_word", 2)), "ab abb"), ElementsAre("a", "##b", "[UNK]"));
  Json json = With("/model/continuing_subword_prefix", "");
  EXPECT_THAT(Tokens(**Load(json), "ae"), ElementsAre("a", "e"));
  json = With("/model/unk_token", "e");
  EXPECT_THAT(Tokens(**Load(json), "x"), ElementsAre("e"));
}

TEST(TokenizerJson, BertProcessing) {
  Json json = With("/post_processor", {{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}, {"sep", {"[SEP]", 3}}});
  EXPECT_THAT((*Load(json))->Encode("a", "a", {})->ids, ElementsAre(2, 5, 3, 5, 3));
  json["post_processor"]["sep"][1] = 2;
  ExpectRefused(json, R"(post_processor."[SEP]" has id 2, which is not its id in the vocabulary)");
  json["post_processor"]["sep"] = "[SEP]";
  ExpectRefused(json, "post_processor.sep is \"[SEP]\", expected an array");
}

TEST(TokenizerJson, LongestText) {
  const Json json = With("/truncation", {{"max_length", 128}, {"strategy", "LongestFirst"}, {"stride", 0}});
  EXPECT_EQ((*Load(json))->max_tokens(), 128);
  EXPECT_EQ((*Load(json, R"({"model_max_length": 512})"))->max_tokens(), 512);
  EXPECT_EQ((*Load(json, R"({"model_max_length": 1e30})"))->max_tokens(), 128);
  EXPECT_EQ((*Load(Bert(), R"({"model_max_length": 512})"))->max_tokens(), 512);
}

TEST(TokenizerJson, SpecialTokensBeyondTheModelCountAsVocabulary) {
  Json json = Bert();
  json["added_tokens"].push_back({{"id", 20}, {"content", "[NEW]"}, {"special", true}});
  const auto tokenizer = *Load(json);
  EXPECT_EQ(tokenizer->vocabulary(), 21);
  EXPECT_EQ(tokenizer->TokenText(20), "[NEW]");
  EXPECT_EQ(tokenizer->TokenText(15), "");
}

TEST(TokenizerJson, WhatIsNotBertsIsRefusedByName) {
  ExpectRefused(With("/model/type", "BPE"), R"(model.type is "BPE", expected "WordPiece")");
  ExpectRefused(With("/normalizer/type", "Sequence"), R"(normalizer.type is "Sequence", expected "BertNormalizer")");
  ExpectRefused(With("/normalizer", nullptr), "normalizer is missing, expected an object");
  ExpectRefused(With("/pre_tokenizer/type", "Whitespace"), R"(pre_tokenizer.type is "Whitespace")");
  ExpectRefused(With("/post_processor/type", "ByteLevel"), R"(post_processor.type is "ByteLevel")");
  ExpectRefused(With("/post_processor", nullptr), "post_processor is missing");
  ExpectRefused(With("/post_processor/single/1", "A"), "post_processor.single is an array of 3 items, expected BERT's");
  ExpectRefused(With("/post_processor/pair/3/Sequence/type_id", 0), "post_processor.pair is an array of 5 items");
  ExpectRefused(With("/post_processor/special_tokens/[CLS]/ids/0", 5),
                R"(post_processor.special_tokens.[CLS]."[CLS]" has id 5, which is not its id)");
  ExpectRefused(With("/added_tokens/0/special", false), "added_tokens[0].special is false, expected true");
  ExpectRefused(With("/added_tokens/0/normalized", true), R"(the mask token "[MASK]" has normalized true)");
  ExpectRefused(With("/added_tokens/0/id", 5), R"(added_tokens[0].id 5 is that of "a" and of "[MASK]")");
  ExpectRefused(With("/added_tokens/0", 7), "added_tokens[0] is 7, expected an object");
  ExpectRefused(With("/version", "2.0"), R"(version is "2.0", expected "1.0")");
  ExpectRefused(With("/extra", 1), R"("extra" is a key that is not known here)");
  ExpectRefused(With("/model/dropout", 0.1), R"(model."dropout" is a key that is not known here)");
}

TEST(TokenizerJson, MissingAndMalformedValuesAreNamed) {
  Json json = Bert();
  json["model"].erase("unk_token");
  ExpectRefused(json, "model.unk_token is missing, expected a text");
  json = Bert();
  json["normalizer"].erase("lowercase");
  ExpectRefused(json, "normalizer.lowercase is missing, expected true or false");
  ExpectRefused(With("/model/unk_token", "[X]"), R"(model.unk_token is "[X]", expected a word of model.vocab)");
  ExpectRefused(With("/model/vocab/a", -1), "model.vocab.a is -1, expected a whole number from 0 to 1048575");
  ExpectRefused(With("/model/vocab/a", 1 << 20), "model.vocab.a is 1048576");
  ExpectRefused(With("/model/vocab/a", 6), R"(model.vocab.id 6 is that of "##b" and of "a")");
  ExpectRefused(With("/model/vocab", Json::array()), "model.vocab is an array of 0 items, expected an object");
  ExpectRefused(With("/model/max_input_chars_per_word", 1001), "model.max_input_chars_per_word is 1001");
  ExpectRefused(With("/truncation", 7), "truncation is 7, expected an object");
}

TEST(TokenizerJson, TheConfigurationMayNotContradictIt) {
  ExpectRefused(Bert(), "normalizer.lowercase is true, expected false as ", R"({"do_lower_case": false})");
  ExpectRefused(With("/normalizer/strip_accents", false), "normalizer.strip_accents is false, expected true as ",
                R"({"strip_accents": true})");
  EXPECT_TRUE(Load(Bert(), R"({"do_lower_case": true, "strip_accents": null})").ok());
}

}  // namespace
}  // namespace lion
