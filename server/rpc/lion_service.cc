#include "server/rpc/lion_service.h"

#include <string>

#include "server/rpc/convert.h"
#include "server/rpc/messages.h"
#include "server/rpc/status.h"
#include "server/rpc/unary_reactor.h"

namespace lion {
namespace {

// A call that is answered on the spot by `handle(response)`.
template <class Handle>
grpc::ServerUnaryReactor* AnswerAtOnce(ModelRegistry* registry, grpc::CallbackServerContext* context, Handle handle) {
  absl::StatusOr<ModelRegistry::Admission> admission = registry->Enter();
  const absl::Status status = admission.ok() ? handle() : admission.status();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(FinalStatus(status, context));
  return reactor;
}

absl::Status NotOffered(const char* call) {
  return absl::UnimplementedError(std::string(call) + " is not offered by this version of the server");
}

}  // namespace

grpc::ServerUnaryReactor* LionServiceImpl::ListModels(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerAtOnce(server_.registry, context, [this, request, response] {
    v1::ListModelsRequest parsed;
    if (absl::Status status = Parse(request, &parsed); !status.ok()) return status;
    v1::ListModelsResponse reply;
    for (const ModelService* model : server_.registry->models()) *reply.add_models() = DescribeModel(*model);
    return Serialize(reply, response);
  });
}

grpc::ServerUnaryReactor* LionServiceImpl::GetModel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerAtOnce(server_.registry, context, [this, request, response] {
    v1::GetModelRequest parsed;
    if (absl::Status status = Parse(request, &parsed); !status.ok()) return status;
    absl::StatusOr<ModelService*> model = server_.registry->Find(parsed.model());
    return model.ok() ? Serialize(DescribeModel(**model), response) : model.status();
  });
}

grpc::ServerUnaryReactor* LionServiceImpl::Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return new UnaryReactor<v1::EmbedRequest, v1::EmbedResponse>(server_, context, request, response);
}

grpc::ServerUnaryReactor* LionServiceImpl::Classify(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return new UnaryReactor<v1::ClassifyRequest, v1::ClassifyResponse>(server_, context, request, response);
}

grpc::ServerUnaryReactor* LionServiceImpl::FillMask(grpc::CallbackServerContext* context, const grpc::ByteBuffer*,
                                                    grpc::ByteBuffer*) {
  return AnswerAtOnce(server_.registry, context, [] { return NotOffered("FillMask"); });
}

grpc::ServerUnaryReactor* LionServiceImpl::Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer*,
                                                    grpc::ByteBuffer*) {
  return AnswerAtOnce(server_.registry, context, [] { return NotOffered("Tokenize"); });
}

LionServiceImpl::RawStream* LionServiceImpl::EmbedStream(grpc::CallbackServerContext* context) {
  return StreamReactor<v1::EmbedRequest, v1::EmbedResponse>::Open(server_, stream_limits_, context, &streams_);
}

LionServiceImpl::RawStream* LionServiceImpl::ClassifyStream(grpc::CallbackServerContext* context) {
  return StreamReactor<v1::ClassifyRequest, v1::ClassifyResponse>::Open(server_, stream_limits_, context, &streams_);
}

}  // namespace lion
