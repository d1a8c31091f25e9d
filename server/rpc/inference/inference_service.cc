#include "server/rpc/inference/inference_service.h"

#include "server/rpc/inference/infer_rpc.h"
#include "server/rpc/inference/model_tensors.h"
#include "server/rpc/status.h"
#include "server/rpc/unary_reactor.h"

namespace lion {
namespace {

// What the server does of the protocol's extensions.
constexpr const char* kExtensions[] = {"binary_tensor_data", "classification", "model_configuration", "parameters",
                                       "schedule_policy"};

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(FinalStatus(status, context));
  return reactor;
}

}  // namespace

absl::StatusOr<SharedModel> InferenceServiceImpl::FindModel(const std::string& name, const std::string& version) const {
  const absl::StatusOr<ModelRegistry::Admission> admission = server_.registry->Enter();
  if (!admission.ok()) return admission.status();
  absl::StatusOr<SharedModel> model = server_.registry->Find(name);
  if (!model.ok()) return model.status();
  if (absl::Status status = CheckVersion(**model, version); !status.ok()) return status;
  return model;
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::ServerLive(Context* context,
                                                                const inference::ServerLiveRequest* /*request*/,
                                                                inference::ServerLiveResponse* response) {
  response->set_live(true);
  return Answer(context, absl::OkStatus());
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::ServerReady(Context* context,
                                                                 const inference::ServerReadyRequest* /*request*/,
                                                                 inference::ServerReadyResponse* response) {
  response->set_ready(options_.is_serving(""));
  return Answer(context, absl::OkStatus());
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::ModelReady(Context* context,
                                                                const inference::ModelReadyRequest* request,
                                                                inference::ModelReadyResponse* response) {
  const absl::StatusOr<SharedModel> model = FindModel(request->name(), request->version());
  response->set_ready(model.ok() && options_.is_serving((*model)->info().name));
  return Answer(context, absl::OkStatus());
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::ServerMetadata(Context* context,
                                                                    const inference::ServerMetadataRequest* /*request*/,
                                                                    inference::ServerMetadataResponse* response) {
  response->set_name("lion-server");
  response->set_version(options_.version);
  for (const char* const extension : kExtensions) response->add_extensions(extension);
  return Answer(context, absl::OkStatus());
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::ModelMetadata(Context* context,
                                                                   const inference::ModelMetadataRequest* request,
                                                                   inference::ModelMetadataResponse* response) {
  const absl::StatusOr<SharedModel> model = FindModel(request->name(), request->version());
  if (model.ok()) *response = DescribeTensors(**model);
  return Answer(context, model.status());
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::ModelConfig(Context* context,
                                                                 const inference::ModelConfigRequest* request,
                                                                 inference::ModelConfigResponse* response) {
  const absl::StatusOr<SharedModel> model = FindModel(request->name(), request->version());
  if (model.ok()) *response->mutable_config() = DescribeConfig(**model);
  return Answer(context, model.status());
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::ModelInfer(Context* context, const grpc::ByteBuffer* request,
                                                                grpc::ByteBuffer* response) {
  return UnaryReactor<InferRpc>::Open(server_, context, request, response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceServiceImpl::ModelStreamInfer(Context* context) {
  return StreamReactor<InferStreamRpc>::Open(server_, stream_limits_, context, &streams_);
}

}  // namespace lion
