#include "client/cli/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "tests/client/temporary_folder.h"

namespace lion {
namespace {

using ::lion::testing::TemporaryFolder;
using ::testing::ElementsAre;

std::vector<std::string> Paths(const std::vector<InputFile>& files) {
  std::vector<std::string> paths;
  for (const InputFile& file : files) {
    EXPECT_TRUE(file.status.ok()) << file.path << ": " << file.status;
    paths.push_back(file.path);
  }
  return paths;
}

std::vector<InputFile> Expand(const std::vector<std::string>& arguments, const std::string& list = "") {
  std::istringstream stream(list);
  return ExpandFiles(arguments, stream);
}

TEST(ExpandFilesTest, FilesStayAsGivenAndInOrder) {
  EXPECT_THAT(Paths(Expand({"z.png", "no/such.file", "a.png", "z.png"})),
              ElementsAre("z.png", "no/such.file", "a.png", "z.png"));
}

TEST(ExpandFilesTest, AFolderGivesAllImagesBelowItSorted) {
  const TemporaryFolder folder;
  for (const char* name : {"b.PNG", "a/2.jpeg", "a/1.jpg", "a/deep/3.WebP", "a/notes.txt", "c.gif", ".hidden.png"}) {
    folder.Write(name, "x");
  }
  EXPECT_THAT(Paths(Expand({folder.Path("")})),
              ElementsAre(folder.Path("") + ".hidden.png", folder.Path("") + "a/1.jpg", folder.Path("") + "a/2.jpeg",
                          folder.Path("") + "a/deep/3.WebP", folder.Path("") + "b.PNG"));
}

TEST(ExpandFilesTest, AFolderNamedLikeAnImageIsSearchedAndNotSent) {
  const TemporaryFolder folder;
  folder.Write("x.png/y.png", "x");
  EXPECT_THAT(Paths(Expand({folder.Path("x.png")})), ElementsAre(folder.Path("x.png/y.png")));
}

TEST(ExpandFilesTest, AnEmptyFolderIsAnError) {
  const TemporaryFolder folder;
  folder.Write("sub/readme.txt", "x");
  const auto files = Expand({folder.Path("sub")});
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].path, folder.Path("sub"));
  EXPECT_TRUE(absl::IsNotFound(files[0].status)) << files[0].status;
}

TEST(ExpandFilesTest, PatternsMatchSortedAndFoldersAmongTheMatchesAreSearched) {
  const TemporaryFolder folder;
  for (const char* name : {"10.png", "9.png", "1.jpg", "x.d/7.png"}) folder.Write(name, "x");
  EXPECT_THAT(Paths(Expand({folder.Path("*.png")})), ElementsAre(folder.Path("10.png"), folder.Path("9.png")));
  EXPECT_THAT(Paths(Expand({folder.Path("[0-9].*")})), ElementsAre(folder.Path("1.jpg"), folder.Path("9.png")));
  EXPECT_THAT(Paths(Expand({folder.Path("*.d")})), ElementsAre(folder.Path("x.d/7.png")));
  const auto none = Expand({folder.Path("*.webp")});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_TRUE(absl::IsNotFound(none[0].status)) << none[0].status;
}

TEST(ExpandFilesTest, AFileWhoseNameLooksLikeAPatternIsTakenAsItIs) {
  const TemporaryFolder folder;
  const std::string odd = folder.Write("a[1].png", "x");
  folder.Write("a1.png", "x");
  EXPECT_THAT(Paths(Expand({odd})), ElementsAre(odd));
}

TEST(ExpandFilesTest, ADashReadsTheList) {
  const TemporaryFolder folder;
  folder.Write("d/1.png", "x");
  EXPECT_THAT(Paths(Expand({"first", "-", "last"}, "one.png\n\ntwo words.png\r\n" + folder.Path("d") + "\nno end")),
              ElementsAre("first", "one.png", "two words.png", folder.Path("d/1.png"), "no end", "last"));
}

TEST(ExpandFilesTest, AnEmptyListIsAnError) {
  for (const char* list : {"", "\n", "\r\n\n"}) {
    const auto files = Expand({"-"}, list);
    ASSERT_EQ(files.size(), 1u);
    EXPECT_EQ(files[0].status, absl::NotFoundError("the list on standard input names no file"));
  }
}

TEST(ReadInputFileTest, ReadsWhatIsThere) {
  const TemporaryFolder folder;
  std::string content(300'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  EXPECT_EQ(*ReadInputFile(folder.Write("large", content), 1 << 20), content);
  EXPECT_EQ(*ReadInputFile(folder.Write("empty", ""), 1 << 20), "");
}

// A pipe would be waited for without end where nobody writes into it.
TEST(ReadInputFileTest, OnlyRegularFilesAreReadAndThroughLinksToo) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.Path("pipe.png").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe.png", folder.Path("link.png"));
  for (const char* name : {"pipe.png", "link.png"}) {
    EXPECT_EQ(ReadInputFile(folder.Path(name), 10).status(),
              absl::InvalidArgumentError("it is a pipe, expected a regular file"));
  }
  EXPECT_EQ(ReadInputFile(folder.Path(""), 10).status(),
            absl::InvalidArgumentError("it is a folder, expected a regular file"));
  EXPECT_EQ(ReadInputFile("/dev/zero", 10).status(),
            absl::InvalidArgumentError("it is a device or socket, expected a regular file"));
  folder.Write("file", "x");
  std::filesystem::create_symlink("file", folder.Path("link"));
  EXPECT_EQ(*ReadInputFile(folder.Path("link"), 10), "x");
}

TEST(ReadInputFileTest, ErrorsSayWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(ReadInputFile(folder.Path("none"), 10).status()));
  EXPECT_EQ(*ReadInputFile(folder.Write("ten", "0123456789"), 10), "0123456789");
  EXPECT_EQ(ReadInputFile(folder.Write("eleven", "0123456789x"), 10).status(),
            absl::InvalidArgumentError("the file is longer than 10 bytes"));
}

}  // namespace
}  // namespace lion
