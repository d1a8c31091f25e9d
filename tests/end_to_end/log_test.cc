// The log of a running server: what it says of requests, and that it cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lion/client.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

v1::EmbedRequest BlankImage(int side) {
  v1::EmbedRequest request;
  v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
  pixels->set_height(static_cast<uint32_t>(side));
  pixels->set_width(static_cast<uint32_t>(side));
  pixels->set_type(v1::PixelTensor::TYPE_UINT8);
  pixels->set_data(std::string(static_cast<size_t>(3 * side * side), '\x40'));
  return request;
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A call that takes well over a millisecond, one that is refused and a question; what was logged then.
void Ask(testing::ServerProcess& server) {
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  auto client = Client::Create({.address = absl::StrCat("127.0.0.1:", port)}).value();
  EXPECT_TRUE(client->Embed(BlankImage(256)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(client->Embed(BlankImage(1)).status()));
  EXPECT_TRUE(client->GetModel("").ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.AwaitExit(), 0);
}

std::vector<std::string> With(std::vector<std::string> more) {
  more.insert(more.end(), {"--model", testing::SourcePath("tests/golden/vision/lit_normal"), "--host", "127.0.0.1",
                           "--grpc-port", "0", "--max-input-tokens", "4096"});
  return more;
}

TEST(LogTest, SaysNothingOfRequestsUnlessAsked) {
  testing::ServerProcess server(With({}));
  Ask(server);
  EXPECT_EQ(server.standard_output(), "");
  EXPECT_THAT(server.standard_error(), ::testing::Not(::testing::HasSubstr("request")));
}

TEST(LogTest, TheAccessLogIsALineOfJsonForEachRequestOnStandardOutput) {
  testing::ServerProcess server(With({"--access-log"}));
  Ask(server);
  std::vector<std::string> seen;
  for (const std::string& line : Split(server.standard_output())) {
    const nlohmann::json request = nlohmann::json::parse(line);
    EXPECT_EQ(request["model"], "lit_normal") << line;
    EXPECT_EQ(request.count("time"), 1u) << line;
    seen.push_back(absl::StrCat(request["method"].get<std::string>(), " ", request["code"].get<std::string>()));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"Embed OK", "Embed INVALID_ARGUMENT", "GetModel OK"}));
  EXPECT_THAT(server.standard_error(), ::testing::Not(::testing::HasSubstr("slow request")));
}

TEST(LogTest, ASlowRequestIsAWarningWithItsStages) {
  testing::ServerProcess server(With({"--slow-ms", "1", "--log-format", "json"}));
  Ask(server);
  nlohmann::json embed;
  for (const std::string& line : Split(server.standard_error())) {
    const nlohmann::json parsed = nlohmann::json::parse(line);
    if (parsed["message"] != "slow request") continue;
    EXPECT_EQ(parsed["level"], "warning");
    if (parsed["request"]["code"] == "OK") embed = parsed["request"];
  }
  ASSERT_TRUE(embed.is_object()) << server.standard_error();
  EXPECT_EQ(embed["method"], "Embed");
  EXPECT_GT(embed["compute_ms"], 0);
  EXPECT_GT(embed["tokens"], 100);

  testing::ServerProcess text(With({"--slow-ms", "1"}));
  Ask(text);
  const std::string begin = " W slow request {\"method\":";
  EXPECT_THAT(text.standard_error(), ::testing::HasSubstr(begin));
}

TEST(LogTest, AFullDiskStopsNoCall) {
  const std::string socket =
      (std::filesystem::temp_directory_path() / absl::StrCat("lion-log-test-", getpid())).string();
  testing::ServerProcess server({"--model", testing::SourcePath("tests/golden/vision/lit_normal"), "--grpc-port", "-1",
                                 "--unix-socket", socket, "--log-level", "debug", "--max-input-tokens", "4096"},
                                {}, "/dev/full");
  auto client = Client::Create({.address = "unix:" + socket});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->WaitForConnection(std::chrono::minutes(1)));
  while ((*client)->CheckHealth("").value_or(HealthState::kUnknown) != HealthState::kServing) std::this_thread::yield();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE((*client)->Embed(BlankImage(64)).ok());
    EXPECT_TRUE(absl::IsInvalidArgument((*client)->Embed(BlankImage(1)).status()));  // a line of the log, too
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.AwaitExit(), 0);
}

}  // namespace
}  // namespace lion
