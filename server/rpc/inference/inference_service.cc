#include "server/rpc/inference/inference_service.h"

#include "server/rpc/inference/infer_rpc.h"
#include "server/rpc/inference/model_tensors.h"
#include "server/rpc/inference/repository_calls.h"
#include "server/rpc/status.h"
#include "server/rpc/unary_reactor.h"

namespace lion {
namespace {

// What the server does of the protocol's extensions.
constexpr const char* kExtensions[] = {"binary_tensor_data", "classification",  "model_configuration",
                                       "parameters",         "schedule_policy", "statistics"};
constexpr char kModelRepository[] = "model_repository";

void FillDuration(const ModelStatistics::Duration& sum, inference::StatisticDuration* out) {
  out->set_count(static_cast<uint64_t>(sum.count));
  out->set_ns(static_cast<uint64_t>(sum.ns));
}

void FillStatistics(const ModelService& model, inference::ModelStatistics* out) {
  const ModelStatistics::Sums sums = model.statistics().sums();
  out->set_name(model.info().name);
  out->set_version(model.info().version);
  out->set_last_inference(static_cast<uint64_t>(sums.last_batch_ms));
  out->set_inference_count(static_cast<uint64_t>(sums.inputs));
  out->set_execution_count(static_cast<uint64_t>(sums.batches));
  inference::InferStatistics* const stats = out->mutable_inference_stats();
  FillDuration(sums.success, stats->mutable_success());
  FillDuration(sums.fail, stats->mutable_fail());
  FillDuration(sums.queue, stats->mutable_queue());
  FillDuration(sums.compute_input, stats->mutable_compute_input());
  FillDuration(sums.compute_infer, stats->mutable_compute_infer());
  FillDuration(sums.compute_output, stats->mutable_compute_output());
  for (const auto& [inputs, batches] : sums.by_size) {
    inference::InferBatchStatistics* const batch = out->add_batch_stats();
    batch->set_batch_size(static_cast<uint64_t>(inputs));
    FillDuration(batches.compute_input, batch->mutable_compute_input());
    FillDuration(batches.compute_infer, batch->mutable_compute_infer());
  }
}

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
  if (options_.allow_model_control) response->add_extensions(kModelRepository);
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

InferenceServiceImpl::Reactor* InferenceServiceImpl::ModelStatistics(Context* context,
                                                                     const inference::ModelStatisticsRequest* request,
                                                                     inference::ModelStatisticsResponse* response) {
  if (!request->name().empty()) {
    const absl::StatusOr<SharedModel> model = FindModel(request->name(), request->version());
    if (model.ok()) FillStatistics(**model, response->add_model_stats());
    return Answer(context, model.status());
  }
  const absl::StatusOr<ModelRegistry::Admission> admission = server_.registry->Enter();
  if (!admission.ok()) return Answer(context, admission.status());
  for (const SharedModel& model : server_.registry->models()) FillStatistics(*model, response->add_model_stats());
  return Answer(context, absl::OkStatus());
}

absl::StatusOr<ModelControl*> InferenceServiceImpl::FindControl(bool to_change) const {
  if (to_change && !options_.allow_model_control) {
    return absl::FailedPreconditionError(
        "callers may not load and unload models here: the server was started without --allow-model-control");
  }
  // The admission ends here: a load is given up when the server stops, and does not hold that up.
  if (absl::Status status = server_.registry->Enter().status(); !status.ok()) return status;
  ModelControl* const control = control_;
  if (control == nullptr) return absl::UnavailableError("the server is starting");
  return control;
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::RepositoryIndex(Context* context,
                                                                     const inference::RepositoryIndexRequest* request,
                                                                     inference::RepositoryIndexResponse* response) {
  const absl::StatusOr<ModelControl*> control = FindControl(/*to_change=*/false);
  if (control.ok()) *response = DescribeRepository(**control, options_.is_serving, request->ready());
  return Answer(context, control.status());
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::RepositoryModelLoad(
    Context* context, const inference::RepositoryModelLoadRequest* request,
    inference::RepositoryModelLoadResponse* /*response*/) {
  const absl::StatusOr<ModelControl*> control = FindControl(/*to_change=*/true);
  if (!control.ok()) return Answer(context, control.status());
  if (absl::Status status = CheckLoad(*request); !status.ok()) return Answer(context, status);
  return ChangeRepository(context, *control, /*load=*/true,
                          NameOfModel(request->repository_name(), request->model_name()));
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse* /*response*/) {
  const absl::StatusOr<ModelControl*> control = FindControl(/*to_change=*/true);
  if (!control.ok()) return Answer(context, control.status());
  return ChangeRepository(context, *control, /*load=*/false,
                          NameOfModel(request->repository_name(), request->model_name()));
}

InferenceServiceImpl::Reactor* InferenceServiceImpl::ModelInfer(Context* context, const grpc::ByteBuffer* request,
                                                                grpc::ByteBuffer* response) {
  return UnaryReactor<InferRpc>::Open(server_, context, request, response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceServiceImpl::ModelStreamInfer(Context* context) {
  return StreamReactor<InferStreamRpc>::Open(server_, stream_limits_, context, &streams_);
}

}  // namespace lion
