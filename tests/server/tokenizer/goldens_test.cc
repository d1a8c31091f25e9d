// What the package `tokenizers` makes of hard lines (tests/golden/tokenizer/make.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/server/tokenizer/tokenizer_folder.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

std::string Golden(const std::string& name) {
  return testing::ReadFile(testing::SourcePath("tests/golden/tokenizer/" + name));
}

std::vector<std::string> Rows(const std::string& name) {
  std::vector<std::string> rows;
  std::istringstream file(Golden(name));
  for (std::string row; std::getline(file, row);) rows.push_back(row);
  return rows;
}

const std::vector<std::string>& Lines() {
  static const auto* const kLines = [] {
    auto* lines = new std::vector<std::string>;
    for (const std::string& row : Rows("lines.txt")) lines->push_back(nlohmann::json::parse(row));
    return lines;
  }();
  return *kLines;
}

std::unique_ptr<Tokenizer> Load(const std::string& config) {
  const testing::TempFolder folder;
  folder.Write("vocab.txt", Golden("vocab.txt"));
  folder.Write("tokenizer_config.json", config);
  return *Tokenizer::Load(folder.path());
}

// As the golden files have it.
std::string Shown(const Encoding& encoding) {
  std::string shown;
  uint32_t end = 0;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const ByteRange range = encoding.offsets[i];
    if (i > 0) shown += ' ';
    shown += std::to_string(encoding.ids[i]) + "," + std::to_string(int64_t{range.begin} - end) + "," +
             std::to_string(range.end - range.begin);
    end = range.end;
  }
  return shown;
}

void ExpectGoldens(const Tokenizer& tokenizer, const std::string& name, const EncodeOptions& options = {}) {
  const std::vector<std::string> expected = Rows(name);
  ASSERT_EQ(expected.size(), Lines().size());
  ASSERT_GE(expected.size(), 2000u);
  EncodeOptions wanted = options;
  wanted.special_tokens = false;
  wanted.offsets = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == "-") continue;
    const auto encoding = tokenizer.Encode(Lines()[i], std::nullopt, wanted);
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    EXPECT_EQ(Shown(*encoding), expected[i]) << name << ", line " << i << ": " << nlohmann::json(Lines()[i]).dump();

    wanted.offsets = false;
    const auto without_offsets = tokenizer.Encode(Lines()[i], std::nullopt, wanted);
    ASSERT_TRUE(without_offsets.ok());
    EXPECT_EQ(without_offsets->ids, encoding->ids) << "line " << i;
    EXPECT_TRUE(without_offsets->offsets.empty());
    wanted.offsets = true;
  }
}

TEST(TokenizerGoldens, Uncased) { ExpectGoldens(*Load("{}"), "uncased.txt"); }

TEST(TokenizerGoldens, Cased) { ExpectGoldens(*Load(R"({"do_lower_case": false})"), "cased.txt"); }

TEST(TokenizerGoldens, LowerCaseWithAccents) { ExpectGoldens(*Load(R"({"strip_accents": false})"), "accents.txt"); }

TEST(TokenizerGoldens, MaskTokenInText) { ExpectGoldens(*Load("{}"), "mask.txt", {.mask_token_in_text = true}); }

// "FIRST SECOND MAX_TOKENS end|start: IDS / TYPE IDS"
TEST(TokenizerGoldens, TruncatedPairs) {
  const auto tokenizer = Load("{}");
  const std::vector<std::string> rows = Rows("pairs.txt");
  ASSERT_GE(rows.size(), 300u);
  for (const std::string& row : rows) {
    std::istringstream input(row);
    size_t first, second;
    EncodeOptions options;
    std::string side;
    input >> first >> second >> options.max_tokens >> side;
    options.truncation = side == "end:" ? TextTruncation::kEnd : TextTruncation::kStart;
    const auto encoding = tokenizer->Encode(Lines().at(first), Lines().at(second), options);
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    std::string found;
    for (const int32_t id : encoding->ids) found += " " + std::to_string(id);
    found += " /";
    for (const int32_t id : encoding->type_ids) found += " " + std::to_string(id);
    EXPECT_EQ(found, row.substr(row.find(':') + 1)) << row;
  }
}

}  // namespace
}  // namespace lion
