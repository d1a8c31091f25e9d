#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdlib>
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
using ::testing::HasSubstr;

std::unique_ptr<Client> MustCreate(const ClientOptions& options) {
  auto client = Client::Create(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

v1::ClassifyRequest ClassifyRequestOf(int inputs) {
  v1::ClassifyRequest request;
  for (int i = 0; i < inputs; ++i) request.add_inputs()->set_image("image " + std::to_string(i));
  return request;
}

// Returns once the caller has gone away.
grpc::Status Hang(grpc::ServerContext& context) {
  while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
  return grpc::Status::CANCELLED;
}

TEST(ClientOptionsTest, AreCheckedByCreate) {
  EXPECT_THAT(Client::Create({.address = ""}).status().ToString(), HasSubstr("INVALID_ARGUMENT: address is empty"));
  EXPECT_THAT(Client::Create({.timeout = milliseconds(-1)}).status().ToString(), HasSubstr("timeout is -1 ms"));
  EXPECT_THAT(Client::Create({.max_message_bytes = 0}).status().ToString(), HasSubstr("max_message_bytes is 0"));
  EXPECT_THAT(Client::Create({.max_message_bytes = int64_t{1} << 31}).status().ToString(),
              HasSubstr("max_message_bytes is 2147483648"));
}

TEST(ClientTest, SendsRequestsAndReturnsResponsesUnchanged) {
  FakeHandlers handlers;
  handlers.classify = [](grpc::ServerContext&, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    response.set_model(request.model());
    response.set_request_id(request.request_id());
    for (const v1::Input& input : request.inputs()) {
      auto* result = response.add_results();
      if (input.image() == "image 1") {
        EXPECT_TRUE(request.options().partial_results());
        result->mutable_error()->set_code(3);
        result->mutable_error()->set_message("truncated");
      } else {
        result->mutable_classification()->add_scores()->set_label(input.image());
      }
    }
    return grpc::Status::OK;
  };
  FakeServer server(&handlers);
  const auto client = MustCreate({.address = server.address()});
  v1::ClassifyRequest request = ClassifyRequestOf(3);
  request.set_model("m");
  request.set_request_id("r");
  request.mutable_options()->set_partial_results(true);
  const auto response = client->Classify(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->model(), "m");
  EXPECT_EQ(response->request_id(), "r");
  ASSERT_EQ(response->results_size(), 3);
  EXPECT_EQ(response->results(0).classification().scores(0).label(), "image 0");
  EXPECT_EQ(response->results(1).error().message(), "truncated");
  EXPECT_EQ(response->results(2).classification().scores(0).label(), "image 2");
}

TEST(ClientTest, FillsMasksAndTokenizes) {
  FakeHandlers handlers;
  handlers.fill_mask = [](grpc::ServerContext&, const v1::FillMaskRequest& request, v1::FillMaskResponse& response) {
    response.set_request_id(request.request_id());
    for (const v1::Input& input : request.inputs()) {
      auto* prediction = response.add_results()->mutable_filled()->add_masks()->add_predictions();
      prediction->set_token(input.text());
    }
    return grpc::Status::OK;
  };
  handlers.tokenize = [](grpc::ServerContext&, const v1::TokenizeRequest& request, v1::TokenizeResponse& response) {
    for (const v1::Input& input : request.inputs()) response.add_results()->add_tokens()->set_text(input.text());
    return grpc::Status::OK;
  };
  FakeServer server(&handlers);
  const auto client = MustCreate({.address = server.address()});
  v1::FillMaskRequest masked;
  masked.set_request_id("r");
  masked.add_inputs()->set_text("a");
  masked.add_inputs()->set_text("b");
  const auto filled = client->FillMask(masked);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_EQ(filled->request_id(), "r");
  EXPECT_EQ(filled->results(1).filled().masks(0).predictions(0).token(), "b");
  v1::TokenizeRequest text;
  text.add_inputs()->set_text("c");
  const auto tokenized = client->Tokenize(text);
  ASSERT_TRUE(tokenized.ok()) << tokenized.status();
  EXPECT_EQ(tokenized->results(0).tokens(0).text(), "c");
}

TEST(ClientTest, FindsTheServersModels) {
  FakeHandlers handlers;
  handlers.list_models = [](v1::ListModelsResponse& response) {
    response.add_models()->set_name("one");
    response.add_models()->set_name("two");
    return grpc::Status::OK;
  };
  handlers.get_model = [](const v1::GetModelRequest& request, v1::Model& model) {
    if (request.model() != "one") return grpc::Status(grpc::StatusCode::NOT_FOUND, "no model " + request.model());
    model.set_name("one");
    return grpc::Status::OK;
  };
  FakeServer server(&handlers);
  const auto client = MustCreate({.address = server.address()});
  const auto models = client->ListModels();
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->models_size(), 2);
  EXPECT_EQ(models->models(1).name(), "two");
  EXPECT_EQ(client->GetModel("one")->name(), "one");
  EXPECT_EQ(client->GetModel("three").status(), absl::NotFoundError("no model three"));
}

TEST(ClientTest, EveryErrorCodeAndMessageArrives) {
  FakeHandlers handlers;
  int code = 0;
  handlers.embed = [&](grpc::ServerContext&, const v1::EmbedRequest&, v1::EmbedResponse&) {
    return grpc::Status(static_cast<grpc::StatusCode>(code), "message " + std::to_string(code) + " \u00e9");
  };
  FakeServer server(&handlers);
  const auto client = MustCreate({.address = server.address()});
  for (code = 1; code <= 16; ++code) {
    const absl::Status status = client->Embed(v1::EmbedRequest()).status();
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(status.message(), "message " + std::to_string(code) + " \u00e9");
    EXPECT_FALSE(RetryPushback(status).has_value());
  }
}

TEST(ClientTest, PushbackInTrailingMetadataIsExposed) {
  FakeHandlers handlers;
  std::string pushback;
  handlers.embed = [&](grpc::ServerContext& context, const v1::EmbedRequest&, v1::EmbedResponse&) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", pushback);
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  };
  FakeServer server(&handlers);
  const auto client = MustCreate({.address = server.address()});
  const std::pair<const char*, int> cases[] = {{"250", 250}, {"0", 0}, {"-1", -1}, {"soon", -1}};
  for (const auto& [sent, want_ms] : cases) {
    pushback = sent;
    const absl::Status status = client->Embed(v1::EmbedRequest()).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(RetryPushback(status), milliseconds(want_ms)) << sent;
  }
}

TEST(ClientTest, AHungServerFailsAtTheDeadlineOfTheClientOrOfTheCall) {
  FakeHandlers handlers;
  handlers.embed = [](grpc::ServerContext& context, const v1::EmbedRequest&, v1::EmbedResponse&) {
    return Hang(context);
  };
  FakeServer server(&handlers);
  const auto patient = MustCreate({.address = server.address(), .timeout = milliseconds(3'600'000)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(patient->Embed({}, {.timeout = milliseconds(50)}).status()));
  const auto hasty = MustCreate({.address = server.address(), .timeout = milliseconds(50)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(hasty->Embed({}).status()));
}

TEST(ClientTest, TheServerIsToldTheDeadline) {
  FakeHandlers handlers;
  std::chrono::system_clock::time_point deadline;
  handlers.embed = [&](grpc::ServerContext& context, const v1::EmbedRequest&, v1::EmbedResponse&) {
    deadline = context.deadline();
    return grpc::Status::OK;
  };
  FakeServer server(&handlers);
  const auto none = MustCreate({.address = server.address(), .timeout = milliseconds(0)});
  ASSERT_TRUE(none->Embed({}).ok());
  EXPECT_GT(deadline, std::chrono::system_clock::now() + std::chrono::hours(24 * 365));
  ASSERT_TRUE(none->Embed({}, {.timeout = milliseconds(3'600'000)}).ok());
  EXPECT_GT(deadline, std::chrono::system_clock::now() + std::chrono::minutes(58));
  EXPECT_LT(deadline, std::chrono::system_clock::now() + std::chrono::minutes(62));
}

TEST(ClientTest, AnAnswerWithAnotherNumberOfResultsIsAnError) {
  FakeHandlers handlers;
  handlers.classify = [](grpc::ServerContext&, const v1::ClassifyRequest&, v1::ClassifyResponse& response) {
    response.add_results();
    return grpc::Status::OK;
  };
  handlers.embed = [](grpc::ServerContext&, const v1::EmbedRequest&, v1::EmbedResponse& response) {
    response.add_results();
    return grpc::Status::OK;
  };
  handlers.fill_mask = [](grpc::ServerContext&, const v1::FillMaskRequest&, v1::FillMaskResponse& response) {
    response.add_results();
    return grpc::Status::OK;
  };
  handlers.tokenize = [](grpc::ServerContext&, const v1::TokenizeRequest&, v1::TokenizeResponse& response) {
    response.add_results();
    return grpc::Status::OK;
  };
  FakeServer server(&handlers);
  const auto client = MustCreate({.address = server.address()});
  EXPECT_EQ(client->Classify(ClassifyRequestOf(2)).status(),
            absl::InternalError("the server sent 1 results for 2 inputs"));
  EXPECT_EQ(client->Embed({}).status(), absl::InternalError("the server sent 1 results for 0 inputs"));
  EXPECT_EQ(client->FillMask({}).status(), absl::InternalError("the server sent 1 results for 0 inputs"));
  EXPECT_EQ(client->Tokenize({}).status(), absl::InternalError("the server sent 1 results for 0 inputs"));
}

TEST(ClientTest, MessagesOverFourMebibytesPassUpToTheLimit) {
  FakeHandlers handlers;
  handlers.embed = [](grpc::ServerContext&, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
    const std::string& image = request.inputs(0).image();
    response.add_results()->mutable_embedding()->set_data(std::string(image.size(), 'x'));
    return grpc::Status::OK;
  };
  FakeServer server(&handlers);
  v1::EmbedRequest request;
  request.add_inputs()->set_image(std::string(5 << 20, 'i'));
  const auto client = MustCreate({.address = server.address()});
  const auto response = client->Embed(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->results(0).embedding().data().size(), size_t{5 << 20});
  const auto small = MustCreate({.address = server.address(), .max_message_bytes = 4 << 20});
  EXPECT_TRUE(absl::IsResourceExhausted(small->Embed(request).status()));
}

TEST(ClientTest, ManyThreadsShareOneConnection) {
  FakeHandlers handlers;
  std::mutex mutex;
  std::set<std::string> peers;
  handlers.classify = [&](grpc::ServerContext& context, const v1::ClassifyRequest& request,
                          v1::ClassifyResponse& response) {
    {
      const std::lock_guard lock(mutex);
      peers.insert(context.peer());
    }
    response.set_request_id(request.request_id());
    return grpc::Status::OK;
  };
  FakeServer server(&handlers);
  const auto client = MustCreate({.address = server.address()});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        v1::ClassifyRequest request;
        request.set_request_id(std::to_string(t) + "/" + std::to_string(i));
        const auto response = client->Classify(request);
        ASSERT_TRUE(response.ok()) << response.status();
        EXPECT_EQ(response->request_id(), request.request_id());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(peers.size(), 1u);
}

TEST(ClientTest, AnUnreachableServerIsUnavailableAndFoundAgainOnceItIsThere) {
  FakeHandlers handlers;
  handlers.list_models = [](v1::ListModelsResponse&) { return grpc::Status::OK; };
  auto server = std::make_unique<FakeServer>(&handlers);
  const int port = server->port();
  const auto client = MustCreate({.address = server->address(), .timeout = milliseconds(20'000)});
  ASSERT_TRUE(client->ListModels().ok());
  server.reset();
  EXPECT_TRUE(absl::IsUnavailable(client->ListModels().status()));
  EXPECT_FALSE(client->WaitForConnection(milliseconds(10)));
  server = std::make_unique<FakeServer>(&handlers, port);
  EXPECT_TRUE(client->WaitForConnection(milliseconds(20'000)));
  EXPECT_TRUE(client->ListModels().ok());
}

TEST(ClientTest, HealthHasItsThreeStates) {
  using grpc::health::v1::HealthCheckResponse;
  FakeHandlers handlers;
  FakeServer server(&handlers);
  const auto client = MustCreate({.address = server.address()});
  EXPECT_EQ(*client->CheckHealth(""), HealthState::kServing);
  handlers.health = HealthCheckResponse::NOT_SERVING;
  EXPECT_EQ(*client->CheckHealth(""), HealthState::kNotServing);
  handlers.health = HealthCheckResponse::UNKNOWN;
  EXPECT_EQ(*client->CheckHealth(""), HealthState::kUnknown);
  EXPECT_EQ(client->CheckHealth("nobody").status(), absl::NotFoundError("no such service"));
}

// A proxy of the environment must not stand between this machine and itself.
TEST(ClientTest, AProxyIsNotAskedForThisMachine) {
  FakeHandlers handlers;
  FakeServer server(&handlers);
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  const auto client = MustCreate({.address = server.address()});
  const auto state = client->CheckHealth("");
  ::unsetenv("http_proxy");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(*state, HealthState::kServing);
}

}  // namespace
}  // namespace lion
