// What `lion fill-mask` and `lion tokenize` write.
#include <gtest/gtest.h>

#include "client/cli/json_lines.h"
#include "client/cli/text_sinks.h"
#include "tests/client/temporary_folder.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::lion::testing::ReadFile;
using ::lion::testing::TemporaryFolder;

BulkInput Text(const std::string& text, const std::string& source = "--text", int64_t number = 1) {
  BulkInput input;
  input.source = source;
  input.number = number;
  input.value.set_text(text);
  return input;
}

BulkInput Pair(const std::string& first, const std::string& second) {
  BulkInput input = Text("");
  input.value.mutable_text_pair()->set_first(first);
  input.value.mutable_text_pair()->set_second(second);
  return input;
}

void AddMask(uint32_t position, const std::vector<std::pair<std::string, float>>& tokens, InputResult& result) {
  v1::MaskPrediction* mask = result.filled.add_masks();
  mask->set_position(position);
  for (const auto& [token, probability] : tokens) {
    v1::TokenPrediction* prediction = mask->add_predictions();
    prediction->set_id(4937);
    prediction->set_token(token);
    prediction->set_probability(probability);
  }
  result.tokens = 5;
}

void AddToken(int64_t id, const std::string& text, uint32_t start, uint32_t end, uint32_t type, InputResult& result) {
  v1::TokenizedInput::Token* token = result.tokenized.add_tokens();
  token->set_id(id);
  token->set_text(text);
  token->set_start_byte(start);
  token->set_end_byte(end);
  token->set_type_id(type);
}

InputResult Failure() {
  InputResult result;
  result.status = absl::InvalidArgumentError("no mask");
  return result;
}

using MakeSink = std::unique_ptr<ResultSink> (*)(std::unique_ptr<OutputFile> output);

std::string Written(MakeSink make, const std::vector<std::pair<BulkInput, InputResult>>& results) {
  const TemporaryFolder folder;
  auto output = OutputFile::Open(folder.Path("out"));
  EXPECT_TRUE(output.ok()) << output.status();
  const auto sink = make(*std::move(output));
  for (const auto& [input, result] : results) EXPECT_TRUE(sink->Add(input, result).ok());
  EXPECT_TRUE(sink->Finish().ok());
  return ReadFile(folder.Path("out"));
}

TEST(FillMaskTableTest, ASingleMaskIsFilledInTheSentence) {
  InputResult result;
  AddMask(2, {{"cat", 0.421f}, {"##ts", 0.0766f}}, result);
  EXPECT_EQ(Written(MakeFillMaskTable, {{Text("the [MASK] sleeps"), result}}),
            "the [MASK] sleeps\n"
            "  2  cat   42.1 %  the cat sleeps\n"
            "  2  ##ts   7.7 %  thets sleeps\n");
}

TEST(FillMaskTableTest, SeveralMasksHaveTheirPositions) {
  InputResult result;
  AddMask(2, {{"a", 0.5f}}, result);
  AddMask(10, {{"b", 0.25f}}, result);
  EXPECT_EQ(Written(MakeFillMaskTable, {{Text("[MASK] [MASK]"), result}}),
            "[MASK] [MASK]\n"
            "   2  a  50.0 %\n"
            "  10  b  25.0 %\n");
}

TEST(FillMaskTableTest, LinesAreNamedCutTextsMarkedAndFailuresLeftOut) {
  InputResult result;
  AddMask(1, {{"a", 0.5f}}, result);
  InputResult cut = result;
  cut.truncated = true;
  EXPECT_EQ(Written(MakeFillMaskTable, {{Text("x", "f.txt", 3), result}, {Text("y"), Failure()}, {Text("z"), cut}}),
            "f.txt:3: x\n"
            "  1  a  50.0 %\n"
            "\n"
            "z (truncated)\n"
            "  1  a  50.0 %\n");
}

TEST(FillMaskTableTest, AMaskOfAPairIsFilledInItsOwnText) {
  InputResult result;
  AddMask(4, {{"b", 0.5f}}, result);
  EXPECT_EQ(Written(MakeFillMaskTable, {{Pair("a", "[MASK] c"), result}}),
            "a / [MASK] c\n"
            "  4  b  50.0 %  b c\n");
}

TEST(FillMaskTableTest, NothingThatItPrintsControlsATerminal) {
  InputResult result;
  AddMask(1, {{"\x1b[2J", 0.5f}}, result);
  EXPECT_EQ(Written(MakeFillMaskTable, {{Text("a\x1b[MASK]\u009b", "f\n.txt", 1), result}}),
            "f?.txt:1: a?[MASK]?\n"
            "  1  ?[2J  50.0 %  a??[2J?\n");
}

TEST(FillSentenceTest, KeepsToTheTextAroundTheMask) {
  EXPECT_EQ(FillSentence("[MASK]", "x", 5), "x");
  EXPECT_EQ(FillSentence("no mask", "x", 5), "");
  EXPECT_EQ(FillSentence("[MASK] [MASK]", "x", 5), "");
  EXPECT_EQ(FillSentence("0123456789 [MASK] 0123456789", "x", 5), "…789 x 012…");
  EXPECT_EQ(FillSentence("0123 [MASK] 0123", "x", 5), "0123 x 0123");
  EXPECT_EQ(FillSentence("ééééé [MASK]ééééé", "x", 5), "…ééé xééééé");
  EXPECT_EQ(FillSentence("play  [MASK].", "##ing", 20), "playing.");
  EXPECT_EQ(FillSentence("[MASK].", "##", 20), ".");
}

TEST(TokenTableTest, HasBytesWhereATokenHasAny) {
  InputResult result;
  AddToken(101, "[CLS]", 0, 0, 0, result);
  AddToken(1996, "the", 0, 3, 0, result);
  AddToken(7, "##\x1b", 10, 12, 0, result);
  EXPECT_EQ(Written(MakeTokenTable, {{Text("the cats"), result}}),
            "the cats\n"
            "   101      -  [CLS]\n"
            "  1996    0-3  the\n"
            "     7  10-12  ##?\n");
}

TEST(TokenTableTest, TokensOfPairsSayWhichText) {
  InputResult result;
  AddToken(50, "a", 0, 1, 0, result);
  AddToken(6, "b", 0, 1, 1, result);
  EXPECT_EQ(Written(MakeTokenTable, {{Pair("a", "b"), result}}),
            "a / b\n"
            "  50  0-1  first   a\n"
            "   6  0-1  second  b\n");
}

TEST(TextJsonTest, MasksAndTokensAreComplete) {
  InputResult filled;
  AddMask(2, {{"c\"t", 0.5f}}, filled);
  EXPECT_EQ(FillMaskJson(Text("a [MASK]"), filled),
            R"({"index":0,"source":"--text","masks":[{"position":2,"predictions":[)"
            R"({"id":4937,"token":"c\"t","probability":0.5}]}],"tokens":5,"truncated":false})");
  InputResult tokenized;
  AddToken(1996, "the", 0, 3, 1, tokenized);
  EXPECT_EQ(TokenizeJson(Text("the", "f.txt", 3), tokenized),
            R"({"index":0,"source":"f.txt","line":3,"tokens":[)"
            R"({"id":1996,"text":"the","start_byte":0,"end_byte":3,"type_id":1}]})");
  const std::string error = R"({"index":0,"source":"--text","error":{"code":"INVALID_ARGUMENT","message":"no mask"}})";
  EXPECT_EQ(FillMaskJson(Text("a"), Failure()), error);
  EXPECT_EQ(TokenizeJson(Text("a"), Failure()), error);
}

}  // namespace
}  // namespace lion
