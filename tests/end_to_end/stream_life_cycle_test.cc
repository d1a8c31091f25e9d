// SIGTERM while streams are open: no accepted request is lost, and an idle stream holds nothing up.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"
#include "lion/stream.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

v1::EmbedRequest Digit() {
  v1::EmbedRequest request;
  v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
  pixels->set_height(28);
  pixels->set_width(28);
  pixels->set_type(v1::PixelTensor::TYPE_UINT8);
  pixels->set_data(std::string(size_t{3} * 28 * 28, '7'));
  return request;
}

class StreamLifeCycle : public ::testing::Test {
 protected:
  StreamLifeCycle()
      : server_({"--model", testing::SourcePath("models/mnist-lion-s"), "--host", "127.0.0.1", "--grpc-port", "0",
                 "--max-input-tokens", "4096", "--drain-timeout-s", "20"}) {
    const int port = server_.AwaitServing();
    EXPECT_NE(port, 0) << server_.standard_error();
    client_ = Client::Create({.address = absl::StrCat("127.0.0.1:", port)}).value();
  }

  testing::ServerProcess server_;
  std::unique_ptr<Client> client_;
};

TEST_F(StreamLifeCycle, SigtermUnderLoadAnswersOrReturnsEveryRequest) {
  std::atomic<int> sent = 0, answered = 0, returned = 0, other = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto stream = client_->OpenEmbedStream().value();
      while (!stream->HasEnded()) {
        ++sent;
        stream->Start(Digit(), [&](const absl::StatusOr<v1::EmbedResponse>& response) {
          if (response.ok()) {
            ++answered;
          } else {
            ++(absl::IsUnavailable(response.status()) ? returned : other);
          }
        });
      }
      EXPECT_TRUE(absl::IsUnavailable(stream->Finish())) << stream->Finish();
    });
  }
  while (answered < 100) std::this_thread::yield();
  server_.Signal(SIGTERM);
  EXPECT_EQ(server_.AwaitExit(), 0) << server_.standard_error();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered + returned, sent);
  EXPECT_EQ(other, 0);
}

TEST_F(StreamLifeCycle, AnIdleStreamIsEnded) {
  const auto stream = client_->OpenEmbedStream().value();
  ASSERT_TRUE(stream->Call(Digit()).ok());
  server_.Signal(SIGTERM);
  EXPECT_EQ(server_.AwaitExit(), 0) << server_.standard_error();
  const absl::Status status = stream->Finish();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

}  // namespace
}  // namespace lion
