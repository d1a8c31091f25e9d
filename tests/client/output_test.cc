#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "client/cli/json_lines.h"
#include "client/cli/output_file.h"
#include "client/cli/sinks.h"
#include "tests/client/temporary_folder.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::lion::testing::ReadFile;
using ::lion::testing::TemporaryFolder;
using ::testing::HasSubstr;

std::unique_ptr<OutputFile> MustOpen(const std::string& path) {
  auto file = OutputFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

BulkInput Image(const std::string& path) {
  BulkInput input;
  input.source = path;
  return input;
}

BulkInput Line(const std::string& text, int64_t number) {
  BulkInput input;
  input.source = "lines.txt";
  input.number = number;
  input.index = 2;
  input.value.set_text(text);
  return input;
}

BulkInput Argument(const std::string& text) {
  BulkInput input = Line(text, 1);
  input.source = "--text";
  return input;
}

bool Never() { return false; }

InputResult EmbeddingOf(const std::vector<float>& values, int64_t rows = 1) {
  InputResult result;
  result.embedding = values;
  result.rows = rows;
  result.dimensions = static_cast<int64_t>(values.size()) / rows;
  result.tokens = 50;
  return result;
}

InputResult Failure() {
  InputResult result;
  result.status = absl::InvalidArgumentError("truncated \"PNG\"");
  return result;
}

InputResult Scores(const std::vector<ClassScore>& scores) {
  InputResult result;
  result.scores = scores;
  result.tokens = 50;
  return result;
}

TEST(NpyTest, BytesAreExact) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("v.npy");
  const auto sink = MakeNpy(MustOpen(path));
  ASSERT_TRUE(sink->Add(Image("a"), EmbeddingOf({1.0f, -2.0f, 0.5f})).ok());
  ASSERT_TRUE(sink->Add(Image("bad"), Failure()).ok());
  ASSERT_TRUE(sink->Add(Image("b"), EmbeddingOf({0.0f, 1.5f, 3.0f})).ok());
  ASSERT_TRUE(sink->Finish().ok());

  std::string want("\x93NUMPY\x01\x00\x76\x00", 10);
  want += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  want += std::string(127 - want.size(), ' ') + "\n";
  const unsigned char values[24] = {0, 0, 0x80, 0x3f, 0, 0, 0,    0xc0, 0, 0, 0,    0x3f,
                                    0, 0, 0,    0,    0, 0, 0xc0, 0x3f, 0, 0, 0x40, 0x40};
  want.append(reinterpret_cast<const char*>(values), sizeof(values));
  EXPECT_EQ(ReadFile(path), want);
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(NpyTest, TheHeaderHasRoomForAnyShape) {
  const std::string header = NpyHeader(SIZE_MAX, INT64_MAX);
  EXPECT_EQ(header.size(), 128u);
  EXPECT_THAT(header, HasSubstr("(18446744073709551615, 9223372036854775807), }"));
  EXPECT_EQ(header.back(), '\n');
}

TEST(NpyTest, RowsOfAnotherWidthAreRefused) {
  const TemporaryFolder folder;
  const auto sink = MakeNpy(MustOpen(folder.Path("v.npy")));
  ASSERT_TRUE(sink->Add(Image("a"), EmbeddingOf({1, 2, 3, 4})).ok());
  EXPECT_TRUE(absl::IsInternal(sink->Add(Image("b"), EmbeddingOf({1, 2}))));
  EXPECT_TRUE(absl::IsInternal(sink->Add(Image("c"), EmbeddingOf({1, 2, 3, 4}, 2))));
}

TEST(NpyTest, WithoutRowsWhatWasThereStays) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("v.npy", "yesterday's");
  {
    const auto sink = MakeNpy(MustOpen(path));
    ASSERT_TRUE(sink->Add(Image("bad"), Failure()).ok());
    ASSERT_TRUE(sink->Finish().ok());
  }
  EXPECT_EQ(ReadFile(path), "yesterday's");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(OutputFileTest, ErrorsNameThePath) {
  const TemporaryFolder folder;
  const absl::Status status = OutputFile::Open(folder.Path("no/such/folder.npy")).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("no/such/folder.npy"));
}

TEST(OutputFileTest, AFullDiskIsSeen) {
  const auto file = MustOpen("/dev/full");
  absl::Status status = file->Write("x");
  if (status.ok()) status = file->Commit();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(JsonLinesTest, ClassificationsAndErrors) {
  EXPECT_EQ(ClassifyJson(Image("d/7.png"), Scores({{7, "7", 0.99f}, {1, "o\"ne", 0.01f}})),
            R"({"file":"d/7.png","scores":[{"index":7,"label":"7","score":0.99},)"
            R"({"index":1,"label":"o\"ne","score":0.01}],"tokens":50})");
  EXPECT_EQ(ClassifyJson(Image("7.png"), Failure()),
            R"({"file":"7.png","error":{"code":"INVALID_ARGUMENT","message":"truncated \"PNG\""}})");
}

TEST(JsonLinesTest, EmbeddingsInOneOrManyRows) {
  EXPECT_EQ(EmbedJson(Image("a.png"), EmbeddingOf({0.1f, -2.0f}), false),
            R"({"file":"a.png","embedding":[0.1,-2],"tokens":50})");
  EXPECT_EQ(EmbedJson(Image("a.png"), EmbeddingOf({1, 2, 3, 4}, 2), true),
            R"({"file":"a.png","embedding":[[1,2],[3,4]],"tokens":50})");
  EXPECT_EQ(EmbedJson(Image("a.png"), EmbeddingOf({1, 2}), true),
            R"({"file":"a.png","embedding":[[1,2]],"tokens":50})");
  EXPECT_EQ(EmbedJson(Image("a.png"), Failure(), false),
            R"({"file":"a.png","error":{"code":"INVALID_ARGUMENT","message":"truncated \"PNG\""}})");
}

TEST(JsonLinesTest, AFileNameThatIsNotUtf8IsStillJson) {
  const auto json = nlohmann::json::parse(EmbedJson(Image("\xff.png"), EmbeddingOf({1}), false));
  EXPECT_EQ(json["file"], "\ufffd.png");
}

TEST(JsonLinesTest, ModelsAreComplete) {
  v1::Model model;
  model.set_name("digits");
  model.set_modality(v1::Model::MODALITY_VISION);
  model.set_variant("LION-S");
  model.set_patch_order("s");
  model.set_parameters(21'000'000'000);
  model.add_labels("zero");
  model.set_pooling(v1::POOLING_MEAN);
  model.mutable_image()->set_resize(v1::ImageOptions::RESIZE_CENTER_CROP);
  model.add_image_mean(0.485f);
  const auto json = nlohmann::json::parse(ModelJson(model));
  EXPECT_EQ(json["name"], "digits");
  EXPECT_EQ(json["modality"], "vision");
  EXPECT_EQ(json["variant"], "LION-S");
  EXPECT_EQ(json["patch_order"], "s");
  EXPECT_EQ(json["parameters"], 21'000'000'000);
  EXPECT_EQ(json["labels"], nlohmann::json::array({"zero"}));
  EXPECT_EQ(json["pooling"], "mean");
  EXPECT_EQ(json["resize"], "center_crop");
  EXPECT_THAT(ModelJson(model), HasSubstr("\"image_mean\":[0.485]"));
}

TEST(JsonLinesTest, TextsSayWhereTheyComeFromAndWhetherTheyWereCut) {
  InputResult result = EmbeddingOf({1, 2});
  EXPECT_EQ(EmbedJson(Line("a", 3), result, false),
            R"({"index":2,"source":"lines.txt","line":3,"embedding":[1,2],"tokens":50,"truncated":false})");
  result.truncated = true;
  EXPECT_EQ(EmbedJson(Argument("a"), result, false),
            R"({"index":2,"source":"--text","embedding":[1,2],"tokens":50,"truncated":true})");
  EXPECT_EQ(ClassifyJson(Argument("a"), Scores({{1, "good", 0.5f}})),
            R"({"index":2,"source":"--text","scores":[{"index":1,"label":"good","score":0.5}],)"
            R"("tokens":50,"truncated":false})");
  EXPECT_EQ(ClassifyJson(Line("a", 3), Failure()),
            R"({"index":2,"source":"lines.txt","line":3,"error":{"code":"INVALID_ARGUMENT",)"
            R"("message":"truncated \"PNG\""}})");
}

TEST(JsonLinesTest, TheSinkWritesOneLinePerInput) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("v.jsonl");
  const auto sink = MakeJsonLines(MustOpen(path), [](const BulkInput& input, const InputResult& result) {
    return EmbedJson(input, result, false);
  });
  ASSERT_TRUE(sink->Add(Image("a"), EmbeddingOf({1})).ok());
  ASSERT_TRUE(sink->Add(Image("bad"), Failure()).ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(ReadFile(path),
            "{\"file\":\"a\",\"embedding\":[1],\"tokens\":50}\n"
            "{\"file\":\"bad\",\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"truncated \\\"PNG\\\"\"}}\n");
}

TEST(ClassifyTableTest, IsAligned) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("table");
  const auto sink = MakeClassifyTable(MustOpen(path), false, Never);
  ASSERT_TRUE(sink->Add(Image("digits/7.png"), Scores({{7, "7", 0.9984f}, {1, "one", 0.001f}})).ok());
  ASSERT_TRUE(sink->Add(Image("bad.png"), Failure()).ok());
  ASSERT_TRUE(sink->Add(Image("x\n.png"), Scores({{2, "two", 1.0f}, {0, "0", 0.0f}})).ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(ReadFile(path),
            "digits/7.png   7     99.8 %   one  0.1 %\n"
            "x?.png         two  100.0 %   0    0.0 %\n");
}

TEST(ClassifyTableTest, LogitsAndRegressionValuesAreNoPercentages) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("table");
  const auto raw = MakeClassifyTable(MustOpen(path), true, Never);
  ASSERT_TRUE(raw->Add(Image("a"), Scores({{0, "0", 0.5f}})).ok());
  ASSERT_TRUE(raw->Finish().ok());
  EXPECT_EQ(ReadFile(path), "a   0  0.5000\n");
  const auto regression = MakeClassifyTable(MustOpen(path), false, Never);
  ASSERT_TRUE(regression->Add(Image("a"), Scores({{0, "0", 3.25f}})).ok());
  ASSERT_TRUE(regression->Finish().ok());
  EXPECT_EQ(ReadFile(path), "a   0  3.2500\n");
}

// A regression's value may lie between 0 and 1 by chance; with several scores it can be none.
TEST(ClassifyTableTest, AValueBetweenZeroAndOneIsNoPercentage) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("table");
  int asked = 0;
  const auto sink = MakeClassifyTable(MustOpen(path), false, [&] {
    ++asked;
    return true;
  });
  ASSERT_TRUE(sink->Add(Argument("good"), Scores({{0, "0", 0.5f}})).ok());
  ASSERT_TRUE(sink->Add(Argument("bad"), Scores({{0, "0", 0.25f}})).ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(ReadFile(path), "good   0  0.5000\nbad    0  0.2500\n");
  EXPECT_EQ(asked, 1);
}

TEST(ClassifyTableTest, TextsOfTheCommandLineAreShownAndLinesAreNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("table");
  const auto sink = MakeClassifyTable(MustOpen(path), false, Never);
  ASSERT_TRUE(sink->Add(Argument("one\x1b\ntwo"), Scores({{0, "no\x1b", 0.5f}})).ok());
  ASSERT_TRUE(sink->Add(Argument(std::string(70, 'x')), Scores({{0, "no", 0.5f}})).ok());
  ASSERT_TRUE(sink->Add(Line("three", 7), Scores({{0, "no", 0.5f}})).ok());
  ASSERT_TRUE(sink->Finish().ok());
  const std::string spaces(49, ' ');
  EXPECT_EQ(ReadFile(path), "one??two  " + spaces + "    no?  50.0 %\n" + std::string(59, 'x') +
                                "\u2026   no   50.0 %\nlines.txt:7" + spaces + "   no   50.0 %\n");
}

TEST(ClassifyTableTest, AllLinesOfALongTableAreWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("table");
  const auto sink = MakeClassifyTable(MustOpen(path), false, Never);
  for (int i = 0; i < 150; ++i) ASSERT_TRUE(sink->Add(Image(std::to_string(i)), Scores({{0, "0", 1.0f}})).ok());
  ASSERT_TRUE(sink->Finish().ok());
  const std::string text = ReadFile(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 150);
  EXPECT_THAT(text, HasSubstr("\n149   0  100.0 %\n"));
}

}  // namespace
}  // namespace lion
