// A client's ClassifyStream to a fake server, and a record of what its requests were answered with.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lion/client.h"
#include "tests/client/fake_server.h"

namespace lion::testing {

inline v1::ClassifyRequest RequestNamed(const std::string& name) {
  v1::ClassifyRequest request;
  request.set_request_id(name);
  request.add_inputs()->set_image("image of " + name);
  return request;
}

// The right answer: one result per input.
inline v1::ClassifyResponse AnswerTo(const v1::ClassifyRequest& request, uint64_t sequence) {
  v1::ClassifyResponse response;
  response.set_sequence(sequence);
  response.set_request_id(request.request_id());
  for (const v1::Input& input : request.inputs()) {
    response.add_results()->mutable_classification()->add_scores()->set_label(input.image());
  }
  return response;
}

// Counts, and lets others wait for a count.
class Counter {
 public:
  void Add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void WaitFor(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }
  // False: the time passed first.
  bool WaitFor(int count, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return count_ >= count; });
  }
  void Reset() {
    const std::lock_guard lock(mutex_);
    count_ = 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

class StreamTest : public ::testing::Test {
 protected:
  using Response = absl::StatusOr<v1::ClassifyResponse>;

  void Open(const StreamOptions& options = {}, const ClientOptions& client_options = {}) {
    server_ = std::make_unique<FakeServer>(&handlers_);
    ClientOptions with_address = client_options;
    with_address.address = server_->address();
    auto client = Client::Create(with_address);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    auto stream = client_->OpenClassifyStream(options);
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  void Start(const std::string& name) { Start(RequestNamed(name)); }
  void Start(const v1::ClassifyRequest& request) {
    stream_->Start(request, [this, name = request.request_id()](Response response) {
      {
        const std::lock_guard lock(mutex_);
        order_.push_back(name);
        answers_[name].push_back(std::move(response));
      }
      answered_.Add();
    });
  }

  // Of the request, if it was answered exactly once and with a response that is its own.
  absl::Status StatusOf(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const std::vector<Response>& all = answers_[name];
    if (all.size() != 1) return absl::UnknownError("answered " + std::to_string(all.size()) + " times");
    if (!all[0].ok()) return all[0].status();
    if (all[0]->request_id() != name || all[0]->results(0).classification().scores(0).label() != "image of " + name) {
      return absl::UnknownError("answered for " + all[0]->request_id());
    }
    return absl::OkStatus();
  }

  FakeHandlers handlers_;
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Client> client_;
  std::mutex mutex_;
  std::vector<std::string> order_;  // names, as they were answered
  std::map<std::string, std::vector<Response>> answers_;
  Counter answered_;
  std::unique_ptr<ClassifyStream> stream_;
};

}  // namespace lion::testing
