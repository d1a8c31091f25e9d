// The handlers of lion.v1.LionService.
#pragma once

#include <grpcpp/grpcpp.h>

#include "lion/v1/lion.grpc.pb.h"
#include "server/clock.h"
#include "server/model_registry.h"

namespace lion {

// No handler blocks: inference calls are answered from the models' reply threads. `registry` and `clock` must outlive
// the gRPC server that this is registered with.
class LionServiceImpl final : public v1::LionService::CallbackService {
 public:
  LionServiceImpl(ModelRegistry* registry, const Clock* clock) : registry_(registry), clock_(clock) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
                                     v1::Model* response) override;
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const v1::EmbedRequest* request,
                                  v1::EmbedResponse* response) override;
  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context, const v1::ClassifyRequest* request,
                                     v1::ClassifyResponse* response) override;

  // UNIMPLEMENTED, saying so.
  grpc::ServerUnaryReactor* FillMask(grpc::CallbackServerContext* context, const v1::FillMaskRequest* request,
                                     v1::FillMaskResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerBidiReactor<v1::EmbedRequest, v1::EmbedResponse>* EmbedStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::ClassifyRequest, v1::ClassifyResponse>* ClassifyStream(
      grpc::CallbackServerContext* context) override;

 private:
  ModelRegistry* const registry_;
  const Clock* const clock_;
};

}  // namespace lion
