#include "client/cli/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "client/cli/line_reader.h"
#include "tests/client/temporary_folder.h"

namespace lion {
namespace {

using ::lion::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All lines of a file, or the errors in their place.
std::vector<std::string> Lines(const std::string& content, size_t max_line_bytes = 1000) {
  const TemporaryFolder folder;
  auto reader = LineReader::Open(folder.Write("lines.txt", content), max_line_bytes);
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::vector<std::string> lines;
  while (auto line = (*reader)->Next()) lines.push_back(line->ok() ? **line : line->status().ToString());
  EXPECT_FALSE((*reader)->Next().has_value());
  EXPECT_FALSE((*reader)->MustWait());
  return lines;
}

TEST(LineReaderTest, TakesEitherLineEndAndALastLineWithout) {
  EXPECT_THAT(Lines(""), ElementsAre());
  EXPECT_THAT(Lines("\n"), ElementsAre(""));
  EXPECT_THAT(Lines("a\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_THAT(Lines("a\r\nb\rc\r\n\r\n"), ElementsAre("a", "b\rc", ""));
  EXPECT_THAT(Lines(std::string("a\0b\n", 4)), ElementsAre(std::string("a\0b", 3)));
}

TEST(LineReaderTest, AByteOrderMarkIsNoText) {
  EXPECT_THAT(Lines("\xEF\xBB\xBF"
                    "a\n\xEF\xBB\xBF"
                    "b\n"),
              ElementsAre("a",
                          "\xEF\xBB\xBF"
                          "b"));
}

TEST(LineReaderTest, LinesAreWholeWhereverTheReadsEnd) {
  std::string content;
  std::vector<std::string> want;
  for (int i = 0; i < 300; ++i) {
    want.push_back(std::string(i * 7, static_cast<char>('a' + i % 26)));
    content += want.back() + (i % 2 == 0 ? "\n" : "\r\n");
  }
  want.push_back(std::string(200'000, 'z'));  // longer than several reads
  content += want.back();
  EXPECT_EQ(Lines(content, 200'000), want);
}

TEST(LineReaderTest, ALineThatIsTooLongFailsAlone) {
  const std::string error = "INVALID_ARGUMENT: the line has 11 bytes; expected 10 at most";
  EXPECT_THAT(Lines("0123456789\n0123456789x\r\n0123456789\r\n", 10), ElementsAre("0123456789", error, "0123456789"));
  EXPECT_THAT(Lines("short\n" + std::string(300'000, 'x') + "\nlast", 10),
              ElementsAre("short", "INVALID_ARGUMENT: the line has 300000 bytes; expected 10 at most", "last"));
}

TEST(LineReaderTest, AByteOrderMarkTakesNothingFromTheLongestLine) {
  const std::string mark = "\xEF\xBB\xBF";
  for (const std::string end : {"", "\n", "\r\n"}) {
    for (size_t bytes = 6; bytes <= 10; ++bytes) {
      const std::string line = std::string("0123456789").substr(0, bytes);
      EXPECT_THAT(Lines(mark + line + end, 10), ElementsAre(line)) << bytes;
    }
    EXPECT_THAT(Lines(mark + "0123456789x" + end, 10),
                ElementsAre("INVALID_ARGUMENT: the line has 11 bytes; expected 10 at most"));
  }
}

TEST(LineReaderTest, AFolderCannotBeRead) {
  const TemporaryFolder folder;
  auto reader = LineReader::Open(folder.Path(""), 10);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto line = (*reader)->Next();
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(line->status().ToString(), HasSubstr("cannot read the file: Is a directory"));
  EXPECT_FALSE((*reader)->Next().has_value());
  EXPECT_THAT(LineReader::Open(folder.Path("gone"), 10).status().ToString(),
              HasSubstr("NOT_FOUND: cannot open the file: No such file"));
}

TEST(LineReaderTest, SaysWhetherAPipeHasALine) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::ofstream writer;
  std::thread opener([&] { writer.open(path); });
  auto reader = LineReader::Open(path, 100);
  opener.join();
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->MustWait());
  writer << "a\nb\n" << std::flush;
  EXPECT_FALSE((*reader)->MustWait());
  EXPECT_EQ(**(*reader)->Next(), "a");
  EXPECT_FALSE((*reader)->MustWait());
  EXPECT_EQ(**(*reader)->Next(), "b");
  EXPECT_TRUE((*reader)->MustWait());
  writer.close();
  EXPECT_FALSE((*reader)->MustWait());  // the end can be read
  EXPECT_FALSE((*reader)->Next().has_value());
}

// "name = text", or "name ! error".
std::vector<std::string> All(InputLists lists) {
  InputSource source(std::move(lists));
  std::vector<std::string> all;
  while (auto input = source.Next()) {
    EXPECT_EQ(input->index, all.size());
    all.push_back(NameOf(*input) +
                  (input->status.ok() ? " = " + TextOf(*input) : " ! " + std::string(input->status.message())));
  }
  return all;
}

TEST(InputSourceTest, ImagesComeFirstThenTextsThenFiles) {
  const TemporaryFolder folder;
  const std::string one = folder.Write("one.txt", "a\nb\n"), two = folder.Write("two.txt", "c");
  EXPECT_THAT(All({.images = {{"7.png", absl::OkStatus()}, {"*.gif", absl::NotFoundError("no match")}},
                   .texts = {"x", "y"},
                   .text_files = {one, two}}),
              ElementsAre("7.png = ", "*.gif ! no match", "--text 1 = x", "--text 2 = y", one + ":1 = a",
                          one + ":2 = b", two + ":1 = c"));
}

TEST(InputSourceTest, ImagesAreNoTextsAndTextsAreNoImages) {
  const TemporaryFolder folder;
  InputSource source(
      {.images = {{"--text", absl::OkStatus()}}, .texts = {"x"}, .text_files = {folder.Write("lines.txt", "a\n")}});
  const auto image = source.Next(), text = source.Next(), line = source.Next();
  EXPECT_FALSE(image->is_text());
  EXPECT_EQ(image->value.value_case(), v1::Input::VALUE_NOT_SET);
  EXPECT_TRUE(text->is_text() && !text->from_file());
  EXPECT_TRUE(line->is_text() && line->from_file());
}

TEST(InputSourceTest, AFileThatGivesNoTextIsAnErrorAndTheNextGoesOn) {
  const TemporaryFolder folder;
  const std::string empty = folder.Write("empty.txt", ""), good = folder.Write("good.txt", "a\n");
  const std::string gone = folder.Path("gone.txt");
  EXPECT_THAT(All({.text_files = {gone, empty, good}}),
              ElementsAre(gone + " ! cannot open the file: No such file or directory",
                          empty + " ! there is no text in this file", good + ":1 = a"));
}

TEST(InputSourceTest, TextThatIsNotUtf8IsAnErrorOfItsLine) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("lines.txt", "a\nb\xff\nc\n");
  EXPECT_THAT(
      All({.texts = {"\xe9"}, .text_files = {path}}),
      ElementsAre("--text 1 ! the text is not UTF-8: byte 0 is 0xe9, which begins no character", path + ":1 = a",
                  path + ":2 ! the text is not UTF-8: byte 1 is 0xff, which begins no character", path + ":3 = c"));
}

TEST(InputSourceTest, PairsHaveATabBetweenThem) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("lines.txt", "a\tb c\nx\na\tb\tc\n\t\n\n");
  EXPECT_THAT(All({.texts = {"p\tq"}, .text_files = {path}, .pairs = true}),
              ElementsAre("--text 1 = p / q", path + ":1 = a / b c",
                          path + ":2 ! there are 0 tabs; expected one, between two texts",
                          path + ":3 ! there are 2 tabs; expected one, between two texts", path + ":4 =  / ",
                          path + ":5 ! there are 0 tabs; expected one, between two texts"));
  InputSource without({.texts = {"p\tq"}});
  EXPECT_EQ(without.Next()->value.text(), "p\tq");
}

TEST(InputSourceTest, EmptyLinesCountAsLinesWhetherSkippedOrNot) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("lines.txt", "a\n\n \t\r\nb\n");
  EXPECT_THAT(All({.text_files = {path}}),
              ElementsAre(path + ":1 = a", path + ":2 = ", path + ":3 =  \t", path + ":4 = b"));
  EXPECT_THAT(All({.texts = {""}, .text_files = {path}, .skip_empty = true}),
              ElementsAre("--text 1 = ", path + ":1 = a", path + ":4 = b"));
  InputSource source({.text_files = {path}, .skip_empty = true});
  while (source.Next()) {
  }
  EXPECT_EQ(source.skipped(), 2u);
}

TEST(InputSourceTest, TheTotalIsKnownUnlessFilesHaveToBeRead) {
  EXPECT_EQ(InputSource({.images = {{"a", absl::OkStatus()}}, .texts = {"b", "c"}}).total(), 3u);
  EXPECT_EQ(InputSource({.texts = {"b"}, .text_files = {"lines.txt"}}).total(), std::nullopt);
}

TEST(InputSourceTest, NothingMoreIsReadAfterStopReading) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("lines.txt", "a\nb\n");
  InputSource early({.texts = {"x", "y"}, .text_files = {path}});
  early.Next();
  EXPECT_TRUE(early.StopReading());
  EXPECT_EQ(TextOf(*early.Next()), "y");
  EXPECT_FALSE(early.Next().has_value());
  InputSource late({.text_files = {path}});
  late.Next();
  EXPECT_TRUE(late.StopReading());
  EXPECT_FALSE(late.Next().has_value());
  EXPECT_FALSE(InputSource({.texts = {"x"}}).StopReading());
}

}  // namespace
}  // namespace lion
