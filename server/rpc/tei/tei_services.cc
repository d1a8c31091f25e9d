#include "server/rpc/tei/tei_services.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "server/rpc/status.h"
#include "server/rpc/tei/tei_rpc.h"
#include "server/rpc/unary_reactor.h"
#include "server/text_preparer.h"

namespace lion {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using internal::TeiStream;
using Unary = grpc::ServerUnaryReactor;

constexpr char kNoSparse[] = "no model of this server has sparse embeddings";
// Of one Decode, which is worked on at once.
constexpr int kMostIds = 1 << 16;

template <class Rpc>
Unary* Start(const TeiContext& tei, CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* response) {
  return UnaryReactor<Rpc>::Open(tei.exchange, context, request, response);
}

template <class Rpc>
TeiStream* Open(const TeiContext& tei, CallbackServerContext* context) {
  return StreamReactor<Rpc>::Open(tei.exchange, tei.stream_limits, context, tei.streams);
}

Unary* Answer(CallbackServerContext* context, const absl::Status& status) {
  Unary* const reactor = context->DefaultReactor();
  reactor->Finish(FinalStatus(status, context));
  return reactor;
}

class EndedStream final : public TeiStream {
 public:
  explicit EndedStream(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

// Calls `use(model)` with the model that the call's metadata name.
template <class Use>
absl::Status WithModel(const TeiContext& tei, const CallbackServerContext& context, const Use& use) {
  ModelRegistry* const registry = tei.exchange.registry;
  const absl::StatusOr<ModelRegistry::Admission> admission = registry->Enter();
  if (!admission.ok()) return admission.status();
  const absl::StatusOr<SharedModel> model = registry->Find(ModelInMetadata(context));
  return model.ok() ? use(**model) : model.status();
}

absl::Status DecodeIds(const tei::v1::DecodeRequest& request, const ModelService& model,
                       tei::v1::DecodeResponse* response) {
  if (model.tokenizer() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the model '", model.info().name, "' has no ", kNoTokenizer));
  }
  if (request.ids_size() == 0 || request.ids_size() > kMostIds) {
    return absl::InvalidArgumentError(absl::StrCat("`ids` has ", request.ids_size(), " tokens, want 1 to ", kMostIds));
  }
  absl::StatusOr<std::string> text = model.tokenizer()->Decode(
      {request.ids().data(), static_cast<size_t>(request.ids_size())}, request.skip_special_tokens());
  if (!text.ok()) return text.status();
  response->set_text(*std::move(text));
  return absl::OkStatus();
}

}  // namespace

Unary* TeiInfoService::Info(CallbackServerContext* context, const tei::v1::InfoRequest* /*request*/,
                            tei::v1::InfoResponse* response) {
  return Answer(context, WithModel(tei_, *context, [&](const ModelService& model) {
                  *response = DescribeTei(model, tei_.version);
                  return absl::OkStatus();
                }));
}

Unary* TeiEmbedService::Embed(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* response) {
  return Start<tei_rpc::Embed<RpcMethod::kTeiEmbed>>(tei_, context, request, response);
}
TeiStream* TeiEmbedService::EmbedStream(CallbackServerContext* context) {
  return Open<tei_rpc::Embed<RpcMethod::kTeiEmbedStream>>(tei_, context);
}
Unary* TeiEmbedService::EmbedAll(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* response) {
  return Start<tei_rpc::EmbedAll<RpcMethod::kTeiEmbedAll>>(tei_, context, request, response);
}
TeiStream* TeiEmbedService::EmbedAllStream(CallbackServerContext* context) {
  return Open<tei_rpc::EmbedAll<RpcMethod::kTeiEmbedAllStream>>(tei_, context);
}
Unary* TeiEmbedService::EmbedSparse(CallbackServerContext* context, const ByteBuffer* /*request*/,
                                    ByteBuffer* /*response*/) {
  return Answer(context, absl::FailedPreconditionError(kNoSparse));
}
TeiStream* TeiEmbedService::EmbedSparseStream(CallbackServerContext* /*context*/) {
  return new EndedStream(absl::FailedPreconditionError(kNoSparse));
}

Unary* TeiPredictService::Predict(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* response) {
  return Start<tei_rpc::Predict<RpcMethod::kTeiPredict>>(tei_, context, request, response);
}
TeiStream* TeiPredictService::PredictStream(CallbackServerContext* context) {
  return Open<tei_rpc::Predict<RpcMethod::kTeiPredictStream>>(tei_, context);
}
Unary* TeiPredictService::PredictPair(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* response) {
  return Start<tei_rpc::PredictPair<RpcMethod::kTeiPredictPair>>(tei_, context, request, response);
}
TeiStream* TeiPredictService::PredictPairStream(CallbackServerContext* context) {
  return Open<tei_rpc::PredictPair<RpcMethod::kTeiPredictPairStream>>(tei_, context);
}

Unary* TeiRerankService::Rerank(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* response) {
  return Start<tei_rpc::Rerank<RpcMethod::kTeiRerank>>(tei_, context, request, response);
}

Unary* TeiTokenizeService::Tokenize(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* response) {
  return Start<tei_rpc::Tokenize<RpcMethod::kTeiTokenize>>(tei_, context, request, response);
}
TeiStream* TeiTokenizeService::TokenizeStream(CallbackServerContext* context) {
  return Open<tei_rpc::Tokenize<RpcMethod::kTeiTokenizeStream>>(tei_, context);
}
Unary* TeiTokenizeService::Decode(CallbackServerContext* context, const tei::v1::DecodeRequest* request,
                                  tei::v1::DecodeResponse* response) {
  return Answer(context, WithModel(tei_, *context,
                                   [&](const ModelService& model) { return DecodeIds(*request, model, response); }));
}
TeiStream* TeiTokenizeService::DecodeStream(CallbackServerContext* /*context*/) {
  return new EndedStream(absl::UnimplementedError("streams of Decode are not offered: send each as a call"));
}

}  // namespace lion
