// A LION server without a model, in this process: answers as the test says.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "grpc/health/v1/health.pb.h"
#include "lion/v1/lion.grpc.pb.h"

namespace lion::testing {

using EmbedServerStream = grpc::ServerReaderWriter<v1::EmbedResponse, v1::EmbedRequest>;
using ClassifyServerStream = grpc::ServerReaderWriter<v1::ClassifyResponse, v1::ClassifyRequest>;

// What the handlers do; an empty one answers UNIMPLEMENTED. Called from any thread; set before the first call.
struct FakeHandlers {
  std::function<grpc::Status(grpc::ServerContext&, const v1::EmbedRequest&, v1::EmbedResponse&)> embed;
  std::function<grpc::Status(grpc::ServerContext&, const v1::ClassifyRequest&, v1::ClassifyResponse&)> classify;
  std::function<grpc::Status(grpc::ServerContext&, const v1::FillMaskRequest&, v1::FillMaskResponse&)> fill_mask;
  std::function<grpc::Status(grpc::ServerContext&, const v1::TokenizeRequest&, v1::TokenizeResponse&)> tokenize;
  // A whole stream: its end is the stream's.
  std::function<grpc::Status(grpc::ServerContext&, EmbedServerStream&)> embed_stream;
  std::function<grpc::Status(grpc::ServerContext&, ClassifyServerStream&)> classify_stream;
  std::function<grpc::Status(v1::ListModelsResponse&)> list_models;
  std::function<grpc::Status(const v1::GetModelRequest&, v1::Model&)> get_model;
  std::atomic<grpc::health::v1::HealthCheckResponse::ServingStatus> health{
      grpc::health::v1::HealthCheckResponse::SERVING};
};

// Answers a stream's requests, in order, as a handler of unary calls does; its errors become those of the responses.
template <typename Request, typename Response, typename Handler>
grpc::Status AnswerEach(grpc::ServerContext& context, grpc::ServerReaderWriter<Response, Request>& stream,
                        const Handler& handler) {
  Request request;
  for (uint64_t sequence = 0; stream.Read(&request); ++sequence) {
    Response response;
    const grpc::Status status = handler(context, request, response);
    if (!status.ok()) {
      response.mutable_error()->set_code(status.error_code());
      response.mutable_error()->set_message(status.error_message());
    }
    response.set_sequence(sequence);
    stream.Write(response);
  }
  return grpc::Status::OK;
}

class FakeServer {
 public:
  // `port`: 0 for any that is free. `credentials`: null for plaintext. `handlers` must outlive the server.
  explicit FakeServer(FakeHandlers* handlers, int port = 0,
                      const std::shared_ptr<grpc::ServerCredentials>& credentials = nullptr);
  ~FakeServer();

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  struct Services;
  std::unique_ptr<Services> services_;
  int port_ = 0;
};

}  // namespace lion::testing
