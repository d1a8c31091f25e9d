#include "tests/client/fake_server.h"

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>

#include "grpc/health/v1/health.grpc.pb.h"

namespace lion::testing {
namespace {

const grpc::Status kNotSet(grpc::StatusCode::UNIMPLEMENTED, "the test sets no handler for this call");

class FakeLion final : public v1::LionService::Service {
 public:
  explicit FakeLion(FakeHandlers* handlers) : handlers_(handlers) {}

  grpc::Status Embed(grpc::ServerContext* context, const v1::EmbedRequest* request,
                     v1::EmbedResponse* response) override {
    return handlers_->embed ? handlers_->embed(*context, *request, *response) : kNotSet;
  }
  grpc::Status Classify(grpc::ServerContext* context, const v1::ClassifyRequest* request,
                        v1::ClassifyResponse* response) override {
    return handlers_->classify ? handlers_->classify(*context, *request, *response) : kNotSet;
  }
  grpc::Status FillMask(grpc::ServerContext* context, const v1::FillMaskRequest* request,
                        v1::FillMaskResponse* response) override {
    return handlers_->fill_mask ? handlers_->fill_mask(*context, *request, *response) : kNotSet;
  }
  grpc::Status Tokenize(grpc::ServerContext* context, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override {
    return handlers_->tokenize ? handlers_->tokenize(*context, *request, *response) : kNotSet;
  }
  grpc::Status EmbedStream(grpc::ServerContext* context, EmbedServerStream* stream) override {
    return handlers_->embed_stream ? handlers_->embed_stream(*context, *stream) : kNotSet;
  }
  grpc::Status ClassifyStream(grpc::ServerContext* context, ClassifyServerStream* stream) override {
    return handlers_->classify_stream ? handlers_->classify_stream(*context, *stream) : kNotSet;
  }
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse* response) override {
    return handlers_->list_models ? handlers_->list_models(*response) : kNotSet;
  }
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest* request, v1::Model* response) override {
    return handlers_->get_model ? handlers_->get_model(*request, *response) : kNotSet;
  }

 private:
  FakeHandlers* const handlers_;
};

class FakeHealth final : public grpc::health::v1::Health::Service {
 public:
  explicit FakeHealth(FakeHandlers* handlers) : handlers_(handlers) {}

  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override {
    if (!request->service().empty()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service");
    response->set_status(handlers_->health);
    return grpc::Status::OK;
  }

 private:
  FakeHandlers* const handlers_;
};

}  // namespace

struct FakeServer::Services {
  explicit Services(FakeHandlers* handlers) : lion(handlers), health(handlers) {}
  FakeLion lion;
  FakeHealth health;
  std::unique_ptr<grpc::Server> server;
};

FakeServer::FakeServer(FakeHandlers* handlers, int port, const std::shared_ptr<grpc::ServerCredentials>& credentials)
    : services_(std::make_unique<Services>(handlers)) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port),
                           credentials == nullptr ? grpc::InsecureServerCredentials() : credentials, &port_);
  builder.RegisterService(&services_->lion);
  builder.RegisterService(&services_->health);
  services_->server = builder.BuildAndStart();
  if (services_->server == nullptr || port_ == 0) {
    std::fprintf(stderr, "the fake server cannot listen on 127.0.0.1:%d\n", port);
    std::abort();
  }
}

FakeServer::~FakeServer() { services_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5)); }

}  // namespace lion::testing
