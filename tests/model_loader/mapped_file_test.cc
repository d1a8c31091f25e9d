#include "model_loader/mapped_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using ::testing::HasSubstr;

TEST(MappedFile, HoldsTheFilesBytesAndSurvivesAMove) {
  const testing::TempFolder folder;
  auto file = MappedFile::Open(folder.Write("f", "hello"));
  ASSERT_TRUE(file.ok()) << file.status();
  MappedFile moved = std::move(*file);
  EXPECT_EQ(AsText(moved.bytes()), "hello");
}

TEST(MappedFile, SaysWhyAFileCannotBeRead) {
  const testing::TempFolder folder;
  EXPECT_EQ(MappedFile::Open(folder.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  const auto empty = MappedFile::Open(folder.Write("empty", ""));
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("is empty"));
  const auto directory = MappedFile::Open(folder.path());
  EXPECT_THAT(std::string(directory.status().message()), HasSubstr("not a regular file"));
}

// A mapping would show the new bytes, and a shorter file end the process.
TEST(MappedFile, ACopyDoesNotSeeWhatIsWrittenLater) {
  const testing::TempFolder folder;
  const std::string path = folder.Write("f", std::string(100'000, 'a') + "end");
  const auto copy = MappedFile::Open(path, FileAccess::kCopied);
  ASSERT_TRUE(copy.ok()) << copy.status();
  folder.Write("f", "b");
  EXPECT_EQ(AsText(copy->bytes()), std::string(100'000, 'a') + "end");
}

TEST(MappedFile, ACopySaysWhyAFileCannotBeRead) {
  const testing::TempFolder folder;
  const auto open = [](const std::string& path) { return MappedFile::Open(path, FileAccess::kCopied).status(); };
  EXPECT_EQ(open(folder.path() + "/none").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(open(folder.Write("empty", "")).message()), HasSubstr("is empty"));
  EXPECT_THAT(std::string(open(folder.path()).message()), HasSubstr("not a regular file"));
}

TEST(MappedFile, DoesNotWaitForANamedPipe) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(std::string(MappedFile::Open(path).status().message()), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace lion
