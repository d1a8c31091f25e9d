// --model [NAME=]PATH.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/start_up.h"

namespace lion {
namespace {

using ::testing::HasSubstr;

ModelSpec ParseOne(const std::string& text) {
  const absl::StatusOr<std::vector<ModelSpec>> specs = ParseModelSpecs({text});
  EXPECT_TRUE(specs.ok()) << specs.status();
  return specs.ok() ? specs->front() : ModelSpec();
}

std::string Refusal(const std::vector<std::string>& texts) {
  const absl::Status status = ParseModelSpecs(texts).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(ModelSpecsTest, TheNameIsGivenOrFollowsFromThePath) {
  EXPECT_EQ(ParseOne("L\xc3\xb6we=/a/b.pth").name, "L\xc3\xb6we");
  EXPECT_EQ(ParseOne("L\xc3\xb6we=/a/b.pth").path, "/a/b.pth");
  EXPECT_EQ(ParseOne("/a/b.pth").name, "b");
  EXPECT_EQ(ParseOne("/a/x=y/b.pth").name, "b") << "a '=' behind a '/' belongs to the path";
  EXPECT_EQ(ParseOne("/a/b/checkpoint.pth").name, "b");
  EXPECT_EQ(ParseOne("/a/b/model.safetensors").name, "b");
}

TEST(ModelSpecsTest, NamesThatNobodyCanSendAreRefused) {
  EXPECT_THAT(Refusal({"L\xf6we=/a"}), HasSubstr("the model name 'L\\xf6we' has control characters or is not UTF-8"));
  EXPECT_THAT(Refusal({"a\nb=/a"}), HasSubstr("'a\\nb'"));
  EXPECT_THAT(Refusal({"\x1b[31mred=/a"}), HasSubstr("\\x1b[31mred"));
  EXPECT_THAT(Refusal({"/models/L\xf6we.pth"}), HasSubstr("name it with --model NAME=PATH"));
  EXPECT_EQ(ParseOne("lion=/models/L\xf6we.pth").path, "/models/L\xf6we.pth") << "a path may be any bytes";
}

TEST(ModelSpecsTest, EmptyPartsAndDoubleNamesAreRefused) {
  EXPECT_THAT(Refusal({"=/a"}), HasSubstr("neither of them empty"));
  EXPECT_THAT(Refusal({"a="}), HasSubstr("neither of them empty"));
  EXPECT_THAT(Refusal({"a=/x", "/y/a.pth"}), HasSubstr("two models are named 'a'"));
}

}  // namespace
}  // namespace lion
