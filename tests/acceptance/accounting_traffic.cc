#include "tests/acceptance/accounting_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace lion::accounting {
namespace {

bool IsExpected(const Sent& sent, absl::StatusCode code) {
  // Of a full queue: by design for calls, and for a stream's request that has no company.
  if (code == absl::StatusCode::kResourceExhausted) return sent.kind <= Kind::kHasty;
  if (sent.given_up && code == absl::StatusCode::kCancelled) return true;
  if (sent.given_up && !sent.stream && code == absl::StatusCode::kDeadlineExceeded) return true;
  switch (sent.kind) {
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

// A stream, which is cancelled half-way if it is given up.
void RunStream(Client& client, int count, bool given_up, std::mt19937& random, Books& books, std::deque<Sent>& sent) {
  const int cancel_at = given_up ? static_cast<int>(random() % static_cast<unsigned>(count)) : -1;
  auto stream = client.OpenEmbedStream({.max_in_flight = 1 + static_cast<int>(random() % 64)}).value();
  for (int i = 0; i < count; ++i) {
    if (i == cancel_at) stream->Cancel();
    Sent& one = sent.emplace_back();
    one.stream = true;
    one.given_up = given_up;
    stream->Start(books.Make(random, &one), [&books, &one](const auto& response) { books.Take(one, response); });
  }
  const absl::Status status = stream->Finish();
  EXPECT_EQ(status.code(), given_up ? absl::StatusCode::kCancelled : absl::StatusCode::kOk) << status;
}

// Calls at once, some of which are cancelled or have short deadlines if they are given up.
void RunCalls(Client& client, int count, bool given_up, std::mt19937& random, Books& books, std::deque<Sent>& sent) {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  const int most = 1 + static_cast<int>(random() % 32);
  for (int i = 0; i < count; ++i) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return running < most; });
      ++running;
    }
    Sent& one = sent.emplace_back();
    one.given_up = given_up;
    const v1::EmbedRequest request = books.Make(random, &one);
    CallOptions options;
    if (given_up && random() % 2 == 0) options.timeout = std::chrono::milliseconds(1 + random() % 30);
    client.EmbedAsync(request, options, [&](const absl::StatusOr<v1::EmbedResponse>& response) {
      books.Take(one, response);
      std::lock_guard lock(mutex);
      --running;
      changed.notify_all();
    });
    if (given_up && random() % 32 == 0) client.CancelAsyncCalls();
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return running == 0; });
}

}  // namespace

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

void Books::AddImage(v1::Input image, std::string embedding) {
  images_.push_back(std::move(image));
  alone_.push_back(std::move(embedding));
}

v1::EmbedRequest Books::Make(std::mt19937& random, Sent* sent) const {
  const auto choice = random() % 20;
  sent->kind = choice < 11 ? Kind::kGood : choice < 15 ? Kind::kSeveral : static_cast<Kind>(choice - 13);
  v1::EmbedRequest request;
  request.set_model(sent->given_up ? kGivenUp : kCounted);
  request.set_packed_bytes(true);
  request.mutable_options()->set_priority(random() % 4 == 0 ? random() % 10 : 0);
  // Whose counts are to be known exactly.
  if (sent->kind == Kind::kUnknownModel && sent->given_up) sent->kind = Kind::kGood;
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
    sent->images.push_back(random() % images_.size());
    *request.add_inputs() = images_[sent->images.back()];
  }
  if (sent->kind == Kind::kHasty) request.mutable_options()->set_timeout_ms(1 + random() % 20);
  if (sent->kind == Kind::kUnknownModel) request.set_model("nobody");
  return request;
}

void Books::Take(Sent& sent, const absl::StatusOr<v1::EmbedResponse>& response) {
  if (sent.endings.fetch_add(1) != 0) ++twice_;
  const absl::StatusCode code = response.status().code();
  if (!IsExpected(sent, code) && unexpected_.fetch_add(1) < 10) {
    std::cerr << "kind " << static_cast<int>(sent.kind) << ": " << response.status() << "\n";
  }
  if (response.ok()) {
    for (size_t i = 0; i < sent.images.size(); ++i) {
      if (response->results(static_cast<int>(i)).embedding().data() != alone_[sent.images[i]]) ++wrong_;
    }
  }
  std::lock_guard lock(mutex_);
  ++endings_[{sent.given_up, sent.stream, code}];
}

int64_t Books::endings(bool given_up, bool stream, absl::StatusCode code) const {
  std::lock_guard lock(mutex_);
  const auto found = endings_.find({given_up, stream, code});
  return found == endings_.end() ? 0 : found->second;
}

int64_t Books::endings(absl::StatusCode code) const {
  return endings(false, false, code) + endings(false, true, code) + endings(true, false, code) +
         endings(true, true, code);
}

std::string Books::Describe() const {
  std::map<absl::StatusCode, int64_t> by_code;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, count] : endings_) by_code[std::get<2>(key)] += count;
  }
  std::string text;
  for (const auto& [code, count] : by_code) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", absl::StatusCodeToString(code));
  }
  return text;
}

void RunClient(const std::string& address, int requests, uint32_t seed, Books& books, std::deque<Sent>& sent) {
  const auto client = Client::Create({.address = address, .own_connection = true}).value();
  std::mt19937 random(seed);
  while (requests > 0) {
    const int count = std::min<int>(requests, 20 + static_cast<int>(random() % 300));
    const bool given_up = random() % 8 == 0;
    (random() % 2 == 0 ? RunStream : RunCalls)(*client, count, given_up, random, books, sent);
    requests -= count;
  }
}

}  // namespace lion::accounting
