// The handlers of lion.v1.LionService.
#pragma once

#include <grpcpp/grpcpp.h>

#include "lion/v1/lion.grpc.pb.h"
#include "server/byte_account.h"
#include "server/clock.h"
#include "server/model_registry.h"

namespace lion {

// Unary calls come as bytes: what is not the expected message is then ours to answer (gRPC itself would say
// UNIMPLEMENTED without a word). Streams come as messages.
using LionServiceBase = v1::LionService::WithRawCallbackMethod_ListModels<
    v1::LionService::WithRawCallbackMethod_GetModel<v1::LionService::WithRawCallbackMethod_Embed<
        v1::LionService::WithRawCallbackMethod_Classify<v1::LionService::WithRawCallbackMethod_FillMask<
            v1::LionService::WithRawCallbackMethod_Tokenize<v1::LionService::WithCallbackMethod_EmbedStream<
                v1::LionService::WithCallbackMethod_ClassifyStream<v1::LionService::Service>>>>>>>>;

// No handler blocks: inference calls are answered from the models' reply threads. `memory` is charged with the bytes of
// every inference call, request and reply, from its arrival until the reply is sent. `registry`, `clock` and `memory`
// must outlive the gRPC server that this is registered with.
class LionServiceImpl final : public LionServiceBase {
 public:
  LionServiceImpl(ModelRegistry* registry, const Clock* clock, ByteAccount* memory)
      : registry_(registry), clock_(clock), memory_(memory) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

  // UNIMPLEMENTED, saying so.
  grpc::ServerUnaryReactor* FillMask(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<v1::EmbedRequest, v1::EmbedResponse>* EmbedStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::ClassifyRequest, v1::ClassifyResponse>* ClassifyStream(
      grpc::CallbackServerContext* context) override;

 private:
  ModelRegistry* const registry_;
  const Clock* const clock_;
  ByteAccount* const memory_;
};

}  // namespace lion
