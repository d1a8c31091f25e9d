// The handlers of the services of tei.v1.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "server/rpc/exchange.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/stream_reactor.h"
#include "tei/v1/tei.grpc.pb.h"

namespace lion {

// What all of them need. What it points to must outlive the gRPC server that they are registered with.
struct TeiContext {
  ExchangeContext exchange;
  StreamLimits stream_limits;
  OpenStreams* streams = nullptr;
  std::string version;  // of the server
};

namespace internal {

using TeiEmbedBase = tei::v1::Embed::WithRawCallbackMethod_Embed<
    tei::v1::Embed::WithRawCallbackMethod_EmbedStream<tei::v1::Embed::WithRawCallbackMethod_EmbedSparse<
        tei::v1::Embed::WithRawCallbackMethod_EmbedSparseStream<tei::v1::Embed::WithRawCallbackMethod_EmbedAll<
            tei::v1::Embed::WithRawCallbackMethod_EmbedAllStream<tei::v1::Embed::Service>>>>>>;
using TeiPredictBase = tei::v1::Predict::WithRawCallbackMethod_Predict<
    tei::v1::Predict::WithRawCallbackMethod_PredictPair<tei::v1::Predict::WithRawCallbackMethod_PredictStream<
        tei::v1::Predict::WithRawCallbackMethod_PredictPairStream<tei::v1::Predict::Service>>>>;
using TeiRerankBase = tei::v1::Rerank::WithRawCallbackMethod_Rerank<
    tei::v1::Rerank::WithCallbackMethod_RerankStream<tei::v1::Rerank::Service>>;
using TeiTokenizeBase = tei::v1::Tokenize::WithRawCallbackMethod_Tokenize<
    tei::v1::Tokenize::WithRawCallbackMethod_TokenizeStream<tei::v1::Tokenize::WithCallbackMethod_Decode<
        tei::v1::Tokenize::WithRawCallbackMethod_DecodeStream<tei::v1::Tokenize::Service>>>>;

using TeiStream = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

}  // namespace internal

// Messages come as bytes where a call goes to a model, as those of lion.v1 do. No handler blocks.

class TeiInfoService final : public tei::v1::Info::CallbackService {
 public:
  explicit TeiInfoService(TeiContext tei) : tei_(std::move(tei)) {}
  grpc::ServerUnaryReactor* Info(grpc::CallbackServerContext* context, const tei::v1::InfoRequest* request,
                                 tei::v1::InfoResponse* response) override;

 private:
  const TeiContext tei_;
};

class TeiEmbedService final : public internal::TeiEmbedBase {
 public:
  explicit TeiEmbedService(TeiContext tei) : tei_(std::move(tei)) {}
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* EmbedAll(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  // FAILED_PRECONDITION: no model here has sparse embeddings.
  grpc::ServerUnaryReactor* EmbedSparse(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  internal::TeiStream* EmbedStream(grpc::CallbackServerContext* context) override;
  internal::TeiStream* EmbedAllStream(grpc::CallbackServerContext* context) override;
  internal::TeiStream* EmbedSparseStream(grpc::CallbackServerContext* context) override;

 private:
  const TeiContext tei_;
};

class TeiPredictService final : public internal::TeiPredictBase {
 public:
  explicit TeiPredictService(TeiContext tei) : tei_(std::move(tei)) {}
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* PredictPair(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  internal::TeiStream* PredictStream(grpc::CallbackServerContext* context) override;
  internal::TeiStream* PredictPairStream(grpc::CallbackServerContext* context) override;

 private:
  const TeiContext tei_;
};

class TeiRerankService final : public internal::TeiRerankBase {
 public:
  explicit TeiRerankService(TeiContext tei) : tei_(std::move(tei)) {}
  // RerankStream is not offered: gRPC says UNIMPLEMENTED.
  grpc::ServerUnaryReactor* Rerank(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

 private:
  const TeiContext tei_;
};

class TeiTokenizeService final : public internal::TeiTokenizeBase {
 public:
  explicit TeiTokenizeService(TeiContext tei) : tei_(std::move(tei)) {}
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Decode(grpc::CallbackServerContext* context, const tei::v1::DecodeRequest* request,
                                   tei::v1::DecodeResponse* response) override;
  internal::TeiStream* TokenizeStream(grpc::CallbackServerContext* context) override;
  // UNIMPLEMENTED.
  internal::TeiStream* DecodeStream(grpc::CallbackServerContext* context) override;

 private:
  const TeiContext tei_;
};

}  // namespace lion
