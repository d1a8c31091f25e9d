// A LION server without a model, in this process: answers as the test says.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "grpc/health/v1/health.pb.h"
#include "lion/v1/lion.grpc.pb.h"

namespace lion::testing {

// What the handlers do; an empty one answers UNIMPLEMENTED. Called from any thread; set before the first call.
struct FakeHandlers {
  std::function<grpc::Status(grpc::ServerContext&, const v1::EmbedRequest&, v1::EmbedResponse&)> embed;
  std::function<grpc::Status(grpc::ServerContext&, const v1::ClassifyRequest&, v1::ClassifyResponse&)> classify;
  std::function<grpc::Status(v1::ListModelsResponse&)> list_models;
  std::function<grpc::Status(const v1::GetModelRequest&, v1::Model&)> get_model;
  std::atomic<grpc::health::v1::HealthCheckResponse::ServingStatus> health{
      grpc::health::v1::HealthCheckResponse::SERVING};
};

class FakeServer {
 public:
  // `port`: 0 for any that is free. `handlers` must outlive the server.
  explicit FakeServer(FakeHandlers* handlers, int port = 0);
  ~FakeServer();

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  struct Services;
  std::unique_ptr<Services> services_;
  int port_ = 0;
};

}  // namespace lion::testing
