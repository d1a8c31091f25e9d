// Encoded images on their way to the decoding threads, over the wire.
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/server/held_threads.h"
#include "tests/server/rpc_fixture.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The header of a PNG of 16384 x 16384 black and white pixels, without its pixels.
std::string LargePng() {
  std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x40\0\0\0\x40\0\x01\0\0\0\0", 29);
  png += std::string("\xcf\xdc\x0c\x71", 4) + std::string("\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
  return png;
}

class RpcDecodeTest : public RpcTest {
 protected:
  v1::EmbedRequest Images(const std::vector<std::string>& files) {
    v1::EmbedRequest request;
    for (const std::string& file : files) request.add_inputs()->set_image(file);
    return request;
  }

  // Keeps both decoding threads.
  void HoldDecoding() { held_.Hold(&decode_pool_, 2); }

  HeldThreads held_;
  const std::string photo_ = testing::ReadFile(testing::SourcePath("tests/golden/images/landscape.jpg"));
};

TEST_F(RpcDecodeTest, MorePixelsThanEverWaitAreAnArgumentErrorThatNamesTheFlag) {
  PuppetEngine* engine = ServeOne();
  const Answer answer = Embed(Images(std::vector<std::string>(5, LargePng())));
  EXPECT_EQ(answer.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), AllOf(HasSubstr("--max-queue-pixels"), HasSubstr("split the call")));
  EXPECT_EQ(registry_.models()[0]->waiting_tokens(), 0);
  EXPECT_EQ(decode_pool_.waiting_work(), 0);
  EXPECT_EQ(engine->inputs(), 0);
}

TEST_F(RpcDecodeTest, WhileTooManyPixelsWaitCallsAreRefusedWithPushback) {
  ServeOne();
  // Both decoding threads, and the whole queue.
  HoldDecoding();
  ASSERT_TRUE(decode_pool_.Submit({{.work = int64_t{1} << 40, .run = [](const absl::Status&) {}}}, 0).ok());

  // Of a refused call nothing stays behind, be its inputs encoded or not.
  v1::EmbedRequest mixed = EmbedOf({1});
  mixed.add_inputs()->set_image(photo_);
  const Answer refused = Embed(mixed);
  EXPECT_EQ(refused.status.error_code(), grpc::RESOURCE_EXHAUSTED) << refused.status.error_message();
  EXPECT_THAT(refused.status.error_message(), HasSubstr("--max-queue-pixels"));
  EXPECT_EQ(refused.trailers.count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(registry_.models()[0]->waiting_tokens(), 0);
  EXPECT_TRUE(Embed(EmbedOf({1})).status.ok()) << "ready pixels need no decoding";

  held_.Release();
  grpc::Status status;
  do {
    status = Embed(mixed).status;
  } while (status.error_code() == grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(RpcDecodeTest, ACancelledCallsImagesAreNotDecoded) {
  PuppetEngine* engine = ServeOne();
  HoldDecoding();
  InFlight calls(stub_.get());
  calls.Start(Images({photo_, photo_, photo_}));
  while (registry_.models()[0]->waiting_tokens() < 15) std::this_thread::yield();
  calls.Cancel(0);
  calls.AwaitAll();
  EXPECT_EQ(calls.status(0).error_code(), grpc::CANCELLED);
  // The server hears of it a little later.
  grpc::Status probe = Embed(Images({photo_}), /*timeout_ms=*/300).status;
  EXPECT_EQ(probe.error_code(), grpc::DEADLINE_EXCEEDED) << "it waits behind them";
  held_.Release();
  while (registry_.models()[0]->waiting_tokens() > 0) std::this_thread::yield();
  EXPECT_EQ(registry_.models()[0]->dropped_inputs(), 4);
  EXPECT_EQ(engine->inputs(), 0);
}

}  // namespace
}  // namespace lion
