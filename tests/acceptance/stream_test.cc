// Streams at full size against the real server: random cancels, timeouts and bad inputs from many clients, and for
// every request exactly one ending, for every answer the bits of the same image sent alone. LION_STREAM_REQUESTS
// (default 2000) and LION_STREAM_CLIENTS (8) change the size of the run: scripts/acceptance/streams.sh does.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"
#include "lion/stream.h"
#include "tests/acceptance/environment.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using testing::FromEnvironment;

constexpr int kImages = 300;

v1::Input RandomImage(std::mt19937& random) {
  std::uniform_int_distribution<uint32_t> side(8, 96);
  v1::Input input;
  v1::PixelTensor& pixels = *input.mutable_pixels();
  pixels.set_height(side(random));
  pixels.set_width(side(random));
  pixels.set_type(v1::PixelTensor::TYPE_UINT8);
  std::string& bytes = *pixels.mutable_data();
  bytes.resize(size_t{3} * pixels.height() * pixels.width());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * (i >> 5)) % 251 + random() % 5);
  return input;
}

// What is right, and what has been seen.
struct Reference {
  std::vector<v1::Input> images;
  std::vector<std::string> alone;  // the embedding of each, as bytes

  std::mutex mutex;
  std::map<std::string, int64_t> endings;  // by kind
  std::atomic<int64_t> wrong = 0;
  std::atomic<int64_t> twice = 0;
  std::atomic<int64_t> unexpected = 0;
};

enum class Kind { kGood, kSeveral, kHasty, kEmpty, kCorrupt, kUnknownModel, kTooLarge };

struct Sent {
  Kind kind = Kind::kGood;
  std::vector<size_t> images;
  std::atomic<int> endings = 0;
};

v1::EmbedRequest Make(const Reference& reference, std::mt19937& random, Sent* sent) {
  const auto choice = random() % 20;
  sent->kind = choice < 11 ? Kind::kGood : choice < 15 ? Kind::kSeveral : static_cast<Kind>(choice - 13);
  v1::EmbedRequest request;
  request.set_packed_bytes(true);
  request.mutable_options()->set_priority(random() % 4 == 0 ? random() % 10 : 0);
  if (sent->kind == Kind::kEmpty) return request;
  if (sent->kind == Kind::kCorrupt) {
    request.add_inputs()->set_image(std::string("\x89PNG\r\n\x1a\n") + std::to_string(random()));
    return request;
  }
  if (sent->kind == Kind::kTooLarge) {
    v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
    pixels->set_height(4096);
    pixels->set_width(1);
    pixels->set_type(v1::PixelTensor::TYPE_UINT8);
    pixels->set_data(std::string(size_t{3} * 4096, 'x'));
    return request;
  }
  const size_t count = sent->kind == Kind::kSeveral ? 2 + random() % 5 : 1;
  for (size_t i = 0; i < count; ++i) {
    sent->images.push_back(random() % reference.images.size());
    *request.add_inputs() = reference.images[sent->images.back()];
  }
  if (sent->kind == Kind::kHasty) request.mutable_options()->set_timeout_ms(1 + random() % 20);
  if (sent->kind == Kind::kUnknownModel) request.set_model("nobody");
  return request;
}

bool IsExpected(Kind kind, bool cancelled, absl::StatusCode code) {
  if (cancelled && code == absl::StatusCode::kCancelled) return true;
  switch (kind) {
    case Kind::kGood:
    case Kind::kSeveral:
      return code == absl::StatusCode::kOk;
    case Kind::kHasty:
      return code == absl::StatusCode::kOk || code == absl::StatusCode::kDeadlineExceeded;
    case Kind::kUnknownModel:
      return code == absl::StatusCode::kNotFound;
    default:
      return code == absl::StatusCode::kInvalidArgument;
  }
}

void Take(Reference& reference, Sent& sent, bool cancelled, const absl::StatusOr<v1::EmbedResponse>& response) {
  if (sent.endings.fetch_add(1) != 0) ++reference.twice;
  const absl::StatusCode code = response.status().code();
  if (!IsExpected(sent.kind, cancelled, code)) {
    if (reference.unexpected.fetch_add(1) < 10) {
      std::cerr << "kind " << static_cast<int>(sent.kind) << ": " << response.status() << "\n";
    }
  }
  if (response.ok()) {
    for (size_t i = 0; i < sent.images.size(); ++i) {
      if (response->results(static_cast<int>(i)).embedding().data() != reference.alone[sent.images[i]]) {
        ++reference.wrong;
      }
    }
  }
  std::lock_guard lock(reference.mutex);
  ++reference.endings[absl::StatusCodeToString(code)];
}

// One client: stream after stream, some of which it cancels half-way.
void RunClient(const std::string& address, int requests, uint32_t seed, Reference& reference,
               std::vector<std::unique_ptr<Sent>>& sent) {
  const auto client = Client::Create({.address = address, .own_connection = true}).value();
  std::mt19937 random(seed);
  while (requests > 0) {
    const int count = std::min<int>(requests, 50 + static_cast<int>(random() % 500));
    const bool cancels = random() % 8 == 0;
    const int cancel_at = static_cast<int>(random() % static_cast<unsigned>(count));
    auto stream = client->OpenEmbedStream({.max_in_flight = 1 + static_cast<int>(random() % 64)}).value();
    for (int i = 0; i < count; ++i) {
      if (cancels && i == cancel_at) stream->Cancel();
      Sent& one = *sent.emplace_back(std::make_unique<Sent>());
      stream->Start(Make(reference, random, &one),
                    [&reference, &one, cancels](const auto& response) { Take(reference, one, cancels, response); });
    }
    const absl::Status status = stream->Finish();
    EXPECT_EQ(status.code(), cancels ? absl::StatusCode::kCancelled : absl::StatusCode::kOk) << status;
    requests -= count;
  }
}

TEST(StreamAcceptance, EveryRequestHasExactlyOneEndingAndEveryAnswerIsRight) {
  const int requests = FromEnvironment("LION_STREAM_REQUESTS", 2000);
  const int clients = FromEnvironment("LION_STREAM_CLIENTS", 8);
  testing::ServerProcess server({"--model", testing::SourcePath("models/mnist-lion-s"), "--host", "127.0.0.1",
                                 "--grpc-port", "0", "--max-input-tokens", "4096"});
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  const std::string address = absl::StrCat("127.0.0.1:", port);

  Reference reference;
  std::mt19937 random(5);
  const auto client = Client::Create({.address = address, .own_connection = true}).value();
  for (int i = 0; i < kImages; ++i) {
    v1::EmbedRequest request;
    *request.add_inputs() = RandomImage(random);
    request.set_packed_bytes(true);
    const auto response = client->Embed(request);
    ASSERT_TRUE(response.ok()) << response.status();
    reference.images.push_back(request.inputs(0));
    reference.alone.push_back(response->results(0).embedding().data());
  }

  std::vector<std::vector<std::unique_ptr<Sent>>> sent(static_cast<size_t>(clients));
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    const int share = requests / clients + (i < requests % clients ? 1 : 0);
    threads.emplace_back([&, i, share] {
      RunClient(address, share, static_cast<uint32_t>(i + 1), reference, sent[static_cast<size_t>(i)]);
    });
  }
  for (std::thread& thread : threads) thread.join();

  int64_t without = 0, all = 0;
  for (const auto& of_client : sent) {
    for (const auto& one : of_client) {
      ++all;
      without += one->endings == 0;
    }
  }
  std::cout << all << " requests on streams of " << clients << " clients:";
  for (const auto& [code, count] : reference.endings) std::cout << " " << count << " " << code;
  std::cout << "; " << without << " without an ending, " << reference.twice << " with more than one, "
            << reference.wrong << " wrong answers, " << reference.unexpected << " unexpected errors\n";
  EXPECT_EQ(all, requests);
  EXPECT_EQ(without, 0);
  EXPECT_EQ(reference.twice, 0);
  EXPECT_EQ(reference.wrong, 0);
  EXPECT_EQ(reference.unexpected, 0);
  EXPECT_GT(reference.endings["OK"], requests / 2);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.AwaitExit(), 0) << "something of a stream is still inside";
}

}  // namespace
}  // namespace lion
