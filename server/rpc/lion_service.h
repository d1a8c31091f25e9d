// The handlers of lion.v1.LionService.
#pragma once

#include <grpcpp/grpcpp.h>

#include "lion/v1/lion.grpc.pb.h"
#include "server/rpc/exchange.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/stream_reactor.h"

namespace lion {

// Messages come as bytes: what is not the expected one is then ours to answer (gRPC itself would say UNIMPLEMENTED
// without a word, or end the stream as if the client had).
using LionServiceBase = v1::LionService::WithRawCallbackMethod_ListModels<
    v1::LionService::WithRawCallbackMethod_GetModel<v1::LionService::WithRawCallbackMethod_Embed<
        v1::LionService::WithRawCallbackMethod_Classify<v1::LionService::WithRawCallbackMethod_FillMask<
            v1::LionService::WithRawCallbackMethod_Tokenize<v1::LionService::WithRawCallbackMethod_EmbedStream<
                v1::LionService::WithRawCallbackMethod_ClassifyStream<v1::LionService::Service>>>>>>>>;

// No handler blocks: inference calls are answered from the models' reply threads. What `server` points to must outlive
// the gRPC server that this is registered with.
class LionServiceImpl final : public LionServiceBase {
 public:
  LionServiceImpl(const ExchangeContext& server, const StreamLimits& stream_limits)
      : server_(server), stream_limits_(stream_limits) {}

  // Open streams are ended once they have answered what they have read. From any thread.
  void DrainStreams() { streams_.Drain(); }

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* FillMask(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

  using RawStream = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
  RawStream* EmbedStream(grpc::CallbackServerContext* context) override;
  RawStream* ClassifyStream(grpc::CallbackServerContext* context) override;

 private:
  const ExchangeContext server_;
  const StreamLimits stream_limits_;
  OpenStreams streams_;
};

}  // namespace lion
