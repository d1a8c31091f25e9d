#include "model_loader/json.h"

#include <gmock/gmock.h>

#include <string>

namespace lion {
namespace {

using ::testing::HasSubstr;

std::string Error(const std::string& text) {
  const auto json = ParseJson(text);
  return json.ok() ? "" : std::string(json.status().message());
}

TEST(ParseJson, BuildsTheDocument) {
  const auto json = ParseJson(R"({"a": [1, -2, 3.5, "x", null, true], "b": {"a": {}}})");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, nlohmann::json::parse(R"({"a": [1, -2, 3.5, "x", null, true], "b": {"a": {}}})"));
}

TEST(ParseJson, RefusesDuplicateKeys) {
  EXPECT_THAT(Error(R"({"a": 1, "b": {"a": 2}, "a": 3})"), HasSubstr("\"a\" stands twice"));
  EXPECT_THAT(Error(R"([{"k": {"x": 1, "x": 1}}])"), HasSubstr("\"x\" stands twice"));
}

TEST(ParseJson, RefusesDeepNesting) {
  EXPECT_EQ(Error(std::string(32, '[') + std::string(32, ']')), "");
  EXPECT_THAT(Error(std::string(100000, '[')), HasSubstr("nested deeper"));
}

TEST(ParseJson, RefusesWhatIsNoJson) {
  EXPECT_THAT(Error("{"), HasSubstr("at byte"));
  EXPECT_THAT(Error(""), HasSubstr("at byte"));
  EXPECT_THAT(Error("{} {}"), HasSubstr("at byte"));
  EXPECT_THAT(Error("{\"a\": \"\xff\"}"), HasSubstr("UTF-8"));
}

}  // namespace
}  // namespace lion
