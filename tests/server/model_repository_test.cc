#include "server/model_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace lion {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RepositoryTest : public ::testing::Test {
 protected:
  RepositoryTest() : root_(fs::path(::testing::TempDir()) / ("repository_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~RepositoryTest() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& content = "x") {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }
  std::vector<std::string> List() {
    const absl::StatusOr<RepositoryListing> listing = ListRepository(root_.string());
    EXPECT_TRUE(listing.ok()) << listing.status();
    warnings_ = listing->warnings;
    std::vector<std::string> models;
    for (const ModelSpec& model : listing->models) {
      models.push_back(model.name + ":" + fs::path(model.path).lexically_relative(root_).string());
    }
    return models;
  }
  std::string Look(const std::string& name) { return LookAtFiles((root_ / name).string()); }

  const fs::path root_;
  std::vector<std::string> warnings_;
};

TEST_F(RepositoryTest, AModelIsAFolderOrItsHighestVersion) {
  Write("plain/checkpoint.pth");
  Write("versions/9/model.safetensors");
  Write("versions/10/model.safetensors");
  Write("versions/11");                     // no folder
  Write("versions/012/model.safetensors");  // no number
  Write("versions/v13/model.safetensors");
  Write("versions/99999999999999999999/model.safetensors");  // beyond 64 bits
  EXPECT_THAT(List(), ElementsAre("plain:plain", "versions:versions/10"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RepositoryTest, WhatIsNoModelIsPassedOver) {
  EXPECT_THAT(List(), IsEmpty());
  Write("README.md");
  Write(".git/config");
  Write("bad\nname/checkpoint.pth");
  Write("good/checkpoint.pth");
  fs::create_directory_symlink("good", root_ / "link");
  fs::create_directory_symlink("nowhere", root_ / "broken");
  EXPECT_THAT(List(), ElementsAre("good:good", "link:link"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("bad\\nname")));
}

TEST_F(RepositoryTest, AFolderThatCannotBeReadIsAnErrorAndNotEmpty) {
  const absl::Status status = ListRepository((root_ / "none").string()).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr((root_ / "none").string()));
}

TEST_F(RepositoryTest, EveryChangeOfAFolderIsSeen) {
  EXPECT_EQ(Look("m"), "");
  fs::create_directories(root_ / "m");
  std::vector<std::string> looks = {"", Look("m")};
  Write("m/checkpoint.pth", "abc");
  looks.push_back(Look("m"));
  Write("m/checkpoint.pth", "abcd");  // grown
  looks.push_back(Look("m"));
  Write("m/new", "dcba");
  fs::last_write_time(root_ / "m/new", fs::last_write_time(root_ / "m/checkpoint.pth"));
  fs::rename(root_ / "m/new", root_ / "m/checkpoint.pth");  // same size and time
  looks.push_back(Look("m"));
  Write("m/1_Pooling/config.json");
  looks.push_back(Look("m"));
  fs::rename(root_ / "m/1_Pooling/config.json", root_ / "m/1_Pooling/other.json");
  looks.push_back(Look("m"));
  for (size_t i = 0; i < looks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(looks[i], looks[j]) << i << " " << j;
  }
  EXPECT_EQ(Look("m"), looks.back());
}

TEST_F(RepositoryTest, OfAFileOnlyItAndTheSettingsBesideItCount) {
  EXPECT_EQ(Look("a.pth"), "");
  Write("a.pth");
  const std::string before = Look("a.pth");
  EXPECT_NE(before, "");
  Write("b.pth");
  EXPECT_EQ(Look("a.pth"), before);
  Write("config.json");
  EXPECT_NE(Look("a.pth"), before);
}

TEST(FileWatchTest, AChangeCountsOnceItIsStill) {
  FileWatch watch;
  watch.Tried("1");
  EXPECT_FALSE(watch.Look("1"));
  EXPECT_FALSE(watch.changing());
  EXPECT_FALSE(watch.Look("2"));
  EXPECT_TRUE(watch.changing());
  EXPECT_FALSE(watch.Look("3")) << "still being written";
  EXPECT_TRUE(watch.Look("3"));
  watch.Tried("3");
  EXPECT_FALSE(watch.Look("3")) << "tried once, whatever came of it";
  EXPECT_FALSE(watch.Look("1"));
  EXPECT_FALSE(watch.Look("3")) << "changed and changed back";
  EXPECT_FALSE(watch.Look("3"));
}

}  // namespace
}  // namespace lion
