// A gRPC server in this process over puppet engines, and a real channel to it.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "lion/v1/lion.grpc.pb.h"
#include "server/model_registry.h"
#include "server/rpc/rpc_server.h"
#include "tests/server/puppet_engine.h"
#include "tests/support/golden.h"

namespace lion {

class RpcTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  // `options`: the address is set here.
  void Start(RpcServerOptions options) {
    options.host = "127.0.0.1";
    options.port = 0;
    absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(options, &registry_, &clock_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                         grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::LionService::NewStub(channel_);
    health_ = grpc::health::v1::Health::NewStub(channel_);
  }

  void TearDown() override {
    for (PuppetEngine* engine : engines_) engine->Release();
    registry_.Drain();
    registry_.WaitEmpty(kNever);
    server_->Shutdown(0);
  }

  // Adds a model to be served; its engine stays the model's.
  PuppetEngine* AddModel(const std::string& name, const ModelServiceOptions& options = {},
                         std::unique_ptr<PuppetEngine> engine = std::make_unique<PuppetEngine>()) {
    PuppetEngine* puppet = engine.get();
    engines_.push_back(puppet);
    const SharedResources shared = {.clock = &clock_,
                                    .decode_pool = &decode_pool_,
                                    .decode_bytes = decode_limit_,
                                    .tokenize_pool = &tokenize_pool_,
                                    .device_turn = &device_turn_};
    std::unique_ptr<Tokenizer> tokenizer;
    if (engine->config().modality == Modality::kText && with_tokenizer_) {
      absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = Tokenizer::Load(tokenizer_folder_);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      tokenizer = *std::move(loaded);
    }
    absl::StatusOr<std::unique_ptr<ModelService>> model = ModelService::Create(
        {.name = name, .parameters = 42, .weights = "puppet.pth", .metrics = metrics_}, std::move(engine),
        std::move(tokenizer), options, shared, [this, name](const absl::Status&) {
          server_->SetFailed({"", name});
        });
    EXPECT_TRUE(model.ok()) << model.status();
    names_.push_back(name);
    models_.push_back(*std::move(model));
    return puppet;
  }

  void Serve() {
    registry_.Serve(std::move(models_));
    server_->SetServing(kServiceNames, true);
    server_->SetServing(names_, true);
  }

  // Adds the only model and serves it.
  PuppetEngine* ServeOne(const ModelServiceOptions& options = {},
                         std::unique_ptr<PuppetEngine> engine = std::make_unique<PuppetEngine>()) {
    PuppetEngine* puppet = AddModel("puppet", options, std::move(engine));
    Serve();
    return puppet;
  }

  // The same with a model of texts.
  PuppetEngine* ServeTexts(const ModelServiceOptions& options = {},
                           std::unique_ptr<PuppetEngine> engine = PuppetEngine::OfText()) {
    return ServeOne(options, std::move(engine));
  }

  // Once they are served.
  std::vector<SharedModel> models() { return registry_.models(); }

  static void SetPixels(float value, uint32_t side, v1::Input* input) {
    v1::PixelTensor* pixels = input->mutable_pixels();
    pixels->set_height(side);
    pixels->set_width(side);
    const std::vector<float> data(size_t{3} * side * side, value);
    pixels->set_data(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
  }

  static v1::EmbedRequest EmbedOf(const std::vector<float>& values, uint32_t side = 16) {
    v1::EmbedRequest request;
    for (const float value : values) SetPixels(value, side, request.add_inputs());
    return request;
  }
  template <class Request = v1::EmbedRequest>
  static Request TextsOf(const std::vector<std::string>& texts) {
    Request request;
    for (const std::string& text : texts) request.add_inputs()->set_text(text);
    return request;
  }
  template <class Request = v1::EmbedRequest>
  static Request TokensOf(const std::vector<int64_t>& ids) {
    Request request;
    v1::TokenIds* tokens = request.add_inputs()->mutable_tokens();
    tokens->mutable_ids()->Add(ids.begin(), ids.end());
    return request;
  }
  static v1::ClassifyRequest ClassifyOf(const std::vector<float>& values) {
    v1::ClassifyRequest request;
    for (const float value : values) SetPixels(value, 16, request.add_inputs());
    return request;
  }

  struct Answer {
    grpc::Status status;
    v1::EmbedResponse embed;
    v1::ClassifyResponse classify;
    v1::FillMaskResponse fill;
    v1::TokenizeResponse tokenize;
    std::map<std::string, std::string> trailers;
  };
  Answer Embed(const v1::EmbedRequest& request, int64_t timeout_ms = 60'000) {
    return Call(timeout_ms, [&](grpc::ClientContext* context, Answer* answer) {
      return stub_->Embed(context, request, &answer->embed);
    });
  }
  Answer Classify(const v1::ClassifyRequest& request, int64_t timeout_ms = 60'000) {
    return Call(timeout_ms, [&](grpc::ClientContext* context, Answer* answer) {
      return stub_->Classify(context, request, &answer->classify);
    });
  }

  Answer FillMask(const v1::FillMaskRequest& request) {
    return Call(60'000, [&](grpc::ClientContext* context, Answer* answer) {
      return stub_->FillMask(context, request, &answer->fill);
    });
  }
  Answer Tokenize(const v1::TokenizeRequest& request) {
    return Call(60'000, [&](grpc::ClientContext* context, Answer* answer) {
      return stub_->Tokenize(context, request, &answer->tokenize);
    });
  }

  // Embed calls that run while the test goes on.
  class InFlight {
   public:
    explicit InFlight(v1::LionService::Stub* stub) : stub_(stub) {}
    ~InFlight() { AwaitAll(); }
    void Start(const v1::EmbedRequest& request, int64_t timeout_ms = 60'000) {
      auto& call = *calls_.emplace_back(std::make_unique<OneCall>());
      call.request = request;
      call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
      stub_->async()->Embed(&call.context, &call.request, &call.response, [this, &call](grpc::Status status) {
        std::lock_guard lock(mutex_);
        call.status = std::move(status);
        ++done_;
        changed_.notify_all();
      });
    }
    void Cancel(size_t index) { calls_[index]->context.TryCancel(); }
    void AwaitDone(size_t count) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return done_ >= count; });
    }
    void AwaitAll() { AwaitDone(calls_.size()); }
    size_t size() const { return calls_.size(); }
    const grpc::Status& status(size_t index) const { return calls_[index]->status; }
    const v1::EmbedResponse& response(size_t index) const { return calls_[index]->response; }

   private:
    struct OneCall {
      grpc::ClientContext context;
      v1::EmbedRequest request;
      v1::EmbedResponse response;
      grpc::Status status;
    };
    v1::LionService::Stub* const stub_;
    std::vector<std::unique_ptr<OneCall>> calls_;
    std::mutex mutex_;
    std::condition_variable changed_;
    size_t done_ = 0;
  };

  grpc::health::v1::HealthCheckResponse::ServingStatus Health(const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status = health_->Check(&context, request, &response);
    return status.ok() ? response.status() : grpc::health::v1::HealthCheckResponse::SERVICE_UNKNOWN;
  }

  SteadyClock clock_;
  FairBudget decode_bytes_{int64_t{1} << 30};
  FairBudget* decode_limit_ = &decode_bytes_;  // what the next models refuse images by
  FairBudget device_turn_{1};
  PreparePool decode_pool_{{.threads = 2}, &clock_, &decode_bytes_};
  PreparePool tokenize_pool_{{.threads = 2, .max_queue_work = int64_t{64} << 20, .kind = kTextKind}, &clock_, nullptr};
  ModelMetrics* metrics_ = &ModelMetrics::None();  // of the next models
  bool with_tokenizer_ = true;                     // the next models of texts
  // 200 tokens: special ones, letters, digits, common words and endings.
  const std::string tokenizer_folder_ = testing::SourcePath("tests/golden/text/lion_s_mlm");
  std::vector<std::string> names_;
  std::vector<PuppetEngine*> engines_;
  std::vector<std::unique_ptr<ModelService>> models_;
  ModelRegistry registry_{&clock_};
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::LionService::Stub> stub_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;

 private:
  template <class Function>
  Answer Call(int64_t timeout_ms, Function call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    Answer answer;
    answer.status = call(&context, &answer);
    for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
      answer.trailers[std::string(key.data(), key.size())] = std::string(value.data(), value.size());
    }
    return answer;
  }
};

}  // namespace lion
