#include "server/rpc/lion_service.h"

#include "server/rpc/convert.h"
#include "server/rpc/lion_rpc.h"
#include "server/rpc/messages.h"
#include "server/rpc/status.h"
#include "server/rpc/unary_reactor.h"

namespace lion {
namespace {

// A call that is answered on the spot by `handle(model)`, which sets whose metrics count it, if it is a model's.
template <class Handle>
grpc::ServerUnaryReactor* AnswerAtOnce(const ExchangeContext& server, RpcMethod method,
                                       grpc::CallbackServerContext* context, Handle handle) {
  const int64_t arrival_ns = server.clock->NowNs();
  SharedModel model;
  absl::StatusOr<ModelRegistry::Admission> admission = server.registry->Enter();
  const absl::Status status = admission.ok() ? handle(&model) : admission.status();
  ModelMetrics* const unknown = server.metrics == nullptr ? &ModelMetrics::None() : &server.metrics->unknown();
  ModelMetrics* const metrics = model == nullptr ? unknown : model->info().metrics;
  const int64_t end_ns = server.clock->NowNs();
  metrics->CountRequest(method, status.code(), end_ns - arrival_ns);
  if (server.log != nullptr) {
    const RequestOrigin origin = OriginOf(*context);
    RequestRecord record = {
        .method = method, .code = status.code(), .origin = &origin, .end_ns = end_ns, .total_ns = end_ns - arrival_ns};
    if (model != nullptr) {
      record.model = model->info().name;
      record.version = model->info().version;
    }
    server.log->Write(record);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(FinalStatus(status, context));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* LionServiceImpl::ListModels(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerAtOnce(server_, RpcMethod::kListModels, context, [this, request, response](SharedModel*) {
    v1::ListModelsRequest parsed;
    if (absl::Status status = Parse(request, &parsed); !status.ok()) return status;
    v1::ListModelsResponse reply;
    for (const SharedModel& model : server_.registry->models()) *reply.add_models() = DescribeModel(*model);
    return Serialize(reply, response);
  });
}

grpc::ServerUnaryReactor* LionServiceImpl::GetModel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerAtOnce(server_, RpcMethod::kGetModel, context, [this, request, response](SharedModel* named) {
    v1::GetModelRequest parsed;
    if (absl::Status status = Parse(request, &parsed); !status.ok()) return status;
    absl::StatusOr<SharedModel> model = server_.registry->Find(parsed.model());
    if (!model.ok()) return model.status();
    *named = *std::move(model);
    return Serialize(DescribeModel(**named), response);
  });
}

grpc::ServerUnaryReactor* LionServiceImpl::Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return UnaryReactor<EmbedRpc>::Open(server_, context, request, response);
}

grpc::ServerUnaryReactor* LionServiceImpl::Classify(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryReactor<ClassifyRpc>::Open(server_, context, request, response);
}

grpc::ServerUnaryReactor* LionServiceImpl::FillMask(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryReactor<FillMaskRpc>::Open(server_, context, request, response);
}

grpc::ServerUnaryReactor* LionServiceImpl::Tokenize(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryReactor<TokenizeRpc>::Open(server_, context, request, response);
}

LionServiceImpl::RawStream* LionServiceImpl::EmbedStream(grpc::CallbackServerContext* context) {
  return StreamReactor<EmbedStreamRpc>::Open(server_, stream_limits_, context, &streams_);
}

LionServiceImpl::RawStream* LionServiceImpl::ClassifyStream(grpc::CallbackServerContext* context) {
  return StreamReactor<ClassifyStreamRpc>::Open(server_, stream_limits_, context, &streams_);
}

}  // namespace lion
