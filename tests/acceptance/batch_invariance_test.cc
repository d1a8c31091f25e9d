// An answer does not depend on what it was batched with: images of mixed sizes from many clients at once, each compared
// with the same image sent alone. LION_INVARIANCE_IMAGES (default 100), LION_INVARIANCE_CLIENTS (32) and
// LION_INVARIANCE_MODEL change the size of the run: scripts/acceptance/batch_invariance.sh does.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"
#include "tests/acceptance/environment.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using testing::FromEnvironment;

v1::Input RandomImage(std::mt19937& random) {
  std::uniform_int_distribution<uint32_t> side(32, 512);
  v1::Input input;
  v1::PixelTensor& pixels = *input.mutable_pixels();
  pixels.set_height(side(random));
  pixels.set_width(side(random));
  pixels.set_type(v1::PixelTensor::TYPE_UINT8);
  std::string& bytes = *pixels.mutable_data();
  bytes.resize(size_t{3} * pixels.height() * pixels.width());
  // Smooth enough to be image-like, cheap to make.
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * (i >> 7)) % 251 + random() % 5);
  return input;
}

void Compare(const std::string& compute_type) {
  const int images = FromEnvironment("LION_INVARIANCE_IMAGES", 100);
  const int clients = FromEnvironment("LION_INVARIANCE_CLIENTS", 32);
  const char* model = std::getenv("LION_INVARIANCE_MODEL");
  const std::string path =
      model == nullptr ? testing::SourcePath("tests/golden/vision/selective_s_pos_cls/checkpoint.pth") : model;
  testing::ServerProcess server({"--model", path, "--host", "127.0.0.1", "--grpc-port", "0", "--compute-type",
                                 compute_type, "--max-input-tokens", "8192", "--max-queue-tokens", "1000000"});
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  ClientOptions options;
  options.address = absl::StrCat("127.0.0.1:", port);
  options.timeout = std::chrono::minutes(5);

  std::mt19937 random(1);
  std::vector<v1::Input> inputs;
  for (int i = 0; i < images; ++i) inputs.push_back(RandomImage(random));
  std::vector<std::string> alone;
  {
    const auto client = Client::Create(options).value();
    for (const v1::Input& input : inputs) {
      v1::EmbedRequest request;
      *request.add_inputs() = input;
      request.set_packed_bytes(true);
      const auto response = client->Embed(request);
      ASSERT_TRUE(response.ok()) << response.status();
      ASSERT_EQ(response->timing().batch_inputs(), 1u);
      alone.push_back(response->results(0).embedding().data());
    }
  }

  std::atomic<int> next{0}, different{0}, answered{0}, failed{0};
  std::atomic<uint32_t> largest_batch{0};
  std::vector<std::thread> threads;
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&, c] {
      const auto client = Client::Create(options).value();
      std::mt19937 own(static_cast<unsigned>(c));
      while (true) {
        // Calls of one to four images.
        const int count = 1 + static_cast<int>(own() % 4), first = next.fetch_add(count);
        if (first >= images) return;
        v1::EmbedRequest request;
        request.set_packed_bytes(true);
        for (int i = first; i < std::min(first + count, images); ++i) *request.add_inputs() = inputs[i];
        const auto response = client->Embed(request);
        if (!response.ok()) {
          std::cerr << response.status() << "\n";
          ++failed;
          continue;
        }
        for (int i = 0; i < response->results_size(); ++i) {
          ++answered;
          if (response->results(i).embedding().data() != alone[first + i]) ++different;
        }
        uint32_t seen = largest_batch;
        while (seen < response->timing().batch_inputs() &&
               !largest_batch.compare_exchange_weak(seen, response->timing().batch_inputs())) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::cout << compute_type << ": " << answered << " images from " << clients << " clients, batches of up to "
            << largest_batch << " images, " << different << " answers differ from the image alone\n";
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(answered, images);
  EXPECT_EQ(different, 0) << "bitwise equality is the target: docs/mathematics.md, section 6";
  EXPECT_GT(largest_batch, 1u) << "nothing was batched: the test shows nothing";
  server.Signal(SIGTERM);
  EXPECT_EQ(server.AwaitExit(), 0);
}

TEST(BatchInvariance, Float32AnswersEqualTheImageAlone) { Compare("float32"); }
TEST(BatchInvariance, AnswersInTheMachinesOwnTypeEqualTheImageAlone) { Compare("auto"); }

}  // namespace
}  // namespace lion
