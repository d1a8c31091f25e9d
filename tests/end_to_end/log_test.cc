// A log that cannot be written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

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
