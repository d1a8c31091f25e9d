// The asynchronous calls of the client library.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "lion/client.h"
#include "tests/client/fake_server.h"

namespace lion {
namespace {

using ::lion::testing::FakeHandlers;
using ::lion::testing::FakeServer;
using std::chrono::milliseconds;

std::unique_ptr<Client> MustCreate(const ClientOptions& options) {
  auto client = Client::Create(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

v1::EmbedRequest RequestOf(int inputs) {
  v1::EmbedRequest request;
  for (int i = 0; i < inputs; ++i) request.add_inputs()->set_image("image " + std::to_string(i));
  return request;
}

// Waits for the answer of a call that is started with its `done`.
absl::StatusOr<v1::EmbedResponse> Embed(Client& client, const Prepared<v1::EmbedRequest>& request,
                                        const CallOptions& options = {}) {
  std::promise<absl::StatusOr<v1::EmbedResponse>> answer;
  client.EmbedAsync(request, options,
                    [&](absl::StatusOr<v1::EmbedResponse> response) { answer.set_value(std::move(response)); });
  return answer.get_future().get();
}

// Returns once the caller has gone away.
grpc::Status Hang(grpc::ServerContext& context) {
  while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
  return grpc::Status::CANCELLED;
}

class AsyncCallsTest : public ::testing::Test {
 protected:
  AsyncCallsTest() {
    handlers_.embed = [this](grpc::ServerContext& context, const v1::EmbedRequest& request,
                             v1::EmbedResponse& response) {
      {
        const std::lock_guard lock(mutex_);
        peers_.insert(context.peer());
      }
      for (const v1::Input& input : request.inputs()) {
        response.add_results()->mutable_embedding()->set_data(input.image());
      }
      response.set_request_id(request.request_id());
      return grpc::Status::OK;
    };
  }

  FakeHandlers handlers_;
  std::mutex mutex_;
  std::set<std::string> peers_;
};

TEST_F(AsyncCallsTest, ReturnWhatTheBlockingCallReturns) {
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address()});
  v1::EmbedRequest request = RequestOf(2);
  request.set_request_id("r");
  const auto response = Embed(*client, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->SerializeAsString(), client->Embed(request)->SerializeAsString());
  EXPECT_EQ(response->results(1).embedding().data(), "image 1");
}

TEST_F(AsyncCallsTest, ClassifyToo) {
  handlers_.classify = [](grpc::ServerContext&, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    response.add_results()->mutable_classification()->add_scores()->set_label(request.inputs(0).image());
    return grpc::Status::OK;
  };
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address()});
  v1::ClassifyRequest request;
  request.add_inputs()->set_image("7");
  std::promise<std::string> label;
  client->ClassifyAsync(request, {}, [&](const absl::StatusOr<v1::ClassifyResponse>& response) {
    label.set_value(response.ok() ? response->results(0).classification().scores(0).label()
                                  : response.status().ToString());
  });
  EXPECT_EQ(label.get_future().get(), "7");
}

TEST_F(AsyncCallsTest, FillMaskAndTokenizeToo) {
  handlers_.fill_mask = [](grpc::ServerContext&, const v1::FillMaskRequest& request, v1::FillMaskResponse& response) {
    auto* prediction = response.add_results()->mutable_filled()->add_masks()->add_predictions();
    prediction->set_token(request.inputs(0).text());
    return grpc::Status::OK;
  };
  handlers_.tokenize = [](grpc::ServerContext&, const v1::TokenizeRequest&, v1::TokenizeResponse&) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such model");
  };
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address()});
  v1::FillMaskRequest masked;
  masked.add_inputs()->set_text("cat");
  std::promise<std::string> token;
  client->FillMaskAsync(masked, {}, [&](const absl::StatusOr<v1::FillMaskResponse>& response) {
    token.set_value(response.ok() ? response->results(0).filled().masks(0).predictions(0).token()
                                  : response.status().ToString());
  });
  EXPECT_EQ(token.get_future().get(), "cat");
  std::promise<absl::Status> status;
  client->TokenizeAsync(v1::TokenizeRequest(), {}, [&](const absl::StatusOr<v1::TokenizeResponse>& response) {
    status.set_value(response.status());
  });
  EXPECT_EQ(status.get_future().get(), absl::NotFoundError("no such model"));
}

TEST_F(AsyncCallsTest, OnePreparedRequestServesManyCallsAtOnce) {
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address()});
  const auto prepared = std::make_unique<const Prepared<v1::EmbedRequest>>(RequestOf(3));
  EXPECT_EQ(prepared->bytes(), static_cast<int64_t>(RequestOf(3).ByteSizeLong()));
  constexpr int kCalls = 200;
  std::atomic<int> good = 0, all = 0;
  std::promise<void> last;
  for (int i = 0; i < kCalls; ++i) {
    const Prepared<v1::EmbedRequest> copy = *prepared;  // gone before the call is
    client->EmbedAsync(copy, {}, [&](const absl::StatusOr<v1::EmbedResponse>& response) {
      if (response.ok() && response->results(2).embedding().data() == "image 2") ++good;
      if (++all == kCalls) last.set_value();
    });
  }
  last.get_future().wait();
  EXPECT_EQ(good, kCalls);
}

TEST_F(AsyncCallsTest, LargeRequestsArriveWhole) {
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address()});
  v1::EmbedRequest request;
  std::string& image = *request.add_inputs()->mutable_image();
  for (int i = 0; i < 5'000'000; ++i) image += static_cast<char>(i % 251);
  const auto response = Embed(*client, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->results(0).embedding().data(), image);
}

TEST_F(AsyncCallsTest, ErrorsArriveWithCodeMessageAndPushback) {
  handlers_.embed = [](grpc::ServerContext& context, const v1::EmbedRequest&, v1::EmbedResponse&) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", "250");
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  };
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address()});
  const absl::Status status = Embed(*client, RequestOf(1)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(), "the queue is full");
  EXPECT_EQ(RetryPushback(status), milliseconds(250));
}

TEST_F(AsyncCallsTest, AnAnswerWithAnotherNumberOfResultsIsAnError) {
  handlers_.embed = [](grpc::ServerContext&, const v1::EmbedRequest&, v1::EmbedResponse&) { return grpc::Status::OK; };
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address()});
  EXPECT_EQ(Embed(*client, RequestOf(2)).status(), absl::InternalError("the server sent 0 results for 2 inputs"));
}

TEST_F(AsyncCallsTest, FailAtTheDeadlineOfTheClientOrOfTheCall) {
  handlers_.embed = [](grpc::ServerContext& context, const v1::EmbedRequest&, v1::EmbedResponse&) {
    return Hang(context);
  };
  FakeServer server(&handlers_);
  const auto patient = MustCreate({.address = server.address(), .timeout = milliseconds(3'600'000)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Embed(*patient, RequestOf(1), {.timeout = milliseconds(50)}).status()));
  const auto hasty = MustCreate({.address = server.address(), .timeout = milliseconds(50)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Embed(*hasty, RequestOf(1)).status()));
}

TEST_F(AsyncCallsTest, AnUnreachableServerIsUnavailable) {
  std::string address;
  {
    FakeServer server(&handlers_);
    address = server.address();
  }
  const auto client = MustCreate({.address = address});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsUnavailable(Embed(*client, RequestOf(1)).status()));
}

TEST_F(AsyncCallsTest, AnAnswerMayStartTheNextCall) {
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address()});
  const Prepared<v1::EmbedRequest> request = RequestOf(1);
  std::promise<void> end;
  int left = 50;
  std::function<void(absl::StatusOr<v1::EmbedResponse>)> next = [&](const absl::StatusOr<v1::EmbedResponse>& response) {
    EXPECT_TRUE(response.ok()) << response.status();
    if (--left == 0) return end.set_value();
    client->EmbedAsync(request, {}, next);
  };
  client->EmbedAsync(request, {}, next);
  end.get_future().wait();
  EXPECT_EQ(left, 0);
}

TEST_F(AsyncCallsTest, CancellingEndsThoseThatRunAndNoOthers) {
  std::promise<void> hanging[3];
  std::atomic<int> hung = 0;
  const auto answer = handlers_.embed;
  handlers_.embed = [&](grpc::ServerContext& context, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
    if (request.inputs_size() == 1) return answer(context, request, response);
    hanging[hung++].set_value();
    return Hang(context);
  };
  FakeServer server(&handlers_);
  const auto client = MustCreate({.address = server.address(), .timeout = milliseconds(0)});
  std::promise<absl::Status> ends[3];
  for (auto& end : ends) {
    client->EmbedAsync(RequestOf(2), {},
                       [&end](const absl::StatusOr<v1::EmbedResponse>& response) { end.set_value(response.status()); });
  }
  for (auto& started : hanging) started.get_future().wait();
  client->CancelAsyncCalls();
  for (auto& end : ends) EXPECT_TRUE(absl::IsCancelled(end.get_future().get()));
  EXPECT_TRUE(Embed(*client, RequestOf(1)).ok());
  client->CancelAsyncCalls();
}

TEST_F(AsyncCallsTest, TheDestructorCancelsAndWaits) {
  std::promise<void> hanging;
  handlers_.embed = [&](grpc::ServerContext& context, const v1::EmbedRequest&, v1::EmbedResponse&) {
    hanging.set_value();
    return Hang(context);
  };
  FakeServer server(&handlers_);
  auto client = MustCreate({.address = server.address(), .timeout = milliseconds(0)});
  std::atomic<int> done = 0;
  const auto held = std::make_shared<int>(0);
  client->EmbedAsync(RequestOf(1), {}, [&done, held](const absl::StatusOr<v1::EmbedResponse>& response) {
    EXPECT_TRUE(absl::IsCancelled(response.status())) << response.status();
    ++done;
  });
  hanging.get_future().wait();
  client.reset();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(AsyncCallsTest, ClientsShareAConnectionUnlessTheyWantTheirOwn) {
  FakeServer server(&handlers_);
  for (const bool own : {false, true}) {
    peers_.clear();
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 3; ++i) clients.push_back(MustCreate({.address = server.address(), .own_connection = own}));
    for (const auto& client : clients) EXPECT_TRUE(Embed(*client, RequestOf(1)).ok());
    EXPECT_EQ(peers_.size(), own ? 3u : 1u);
  }
}

}  // namespace
}  // namespace lion
