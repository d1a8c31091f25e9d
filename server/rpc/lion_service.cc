#include "server/rpc/lion_service.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "server/rpc/convert.h"
#include "server/rpc/status.h"

namespace lion {
namespace {

// One unary inference call, from its request to the end of its reply. Deletes itself when gRPC is done with it.
template <class Request, class Response>
class InferenceReactor final : public grpc::ServerUnaryReactor {
 public:
  InferenceReactor(ModelRegistry* registry, const Clock* clock, grpc::CallbackServerContext* context,
                   const Request* request, Response* response)
      : clock_(clock), context_(context), request_(request), response_(response), arrival_ns_(clock->NowNs()) {
    // gRPC holds back Finish, and with it OnDone, until the handler has returned this reactor.
    if (absl::Status status = Start(registry); !status.ok()) Finish(FinalStatus(status, context_));
  }

  void OnCancel() override { abandoned_->store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

 private:
  // An error is the call's answer; OK: Answer gives it.
  absl::Status Start(ModelRegistry* registry) {
    absl::StatusOr<ModelRegistry::Admission> admission = registry->Enter();
    if (!admission.ok()) return admission.status();
    admission_ = *std::move(admission);
    absl::StatusOr<ModelService*> model = registry->Find(request_->model());
    if (!model.ok()) return model.status();
    model_ = *model;
    InferenceCall call;
    call.arrival_ns = arrival_ns_;
    call.deadline_ns = DeadlineNs();
    if (absl::Status status = ConvertRequest(*request_, *model_, &call); !status.ok()) return status;
    model_->Run(std::move(call), abandoned_, [this](InferenceReply reply) { Answer(std::move(reply)); });
    return absl::OkStatus();
  }

  // The context's deadline is of the system's clock: read once, so that a step of that clock cannot move it.
  int64_t DeadlineNs() const {
    const std::chrono::system_clock::time_point deadline = context_->deadline();
    if (deadline == std::chrono::system_clock::time_point::max()) return kNever;
    const std::chrono::nanoseconds left = deadline - std::chrono::system_clock::now();
    return left.count() > kNever - arrival_ns_ ? kNever : arrival_ns_ + left.count();
  }

  void Answer(InferenceReply reply) {
    if (!reply.status.ok()) return Finish(FinalStatus(reply.status, context_));
    response_->set_model(model_->info().name);
    response_->set_model_version(model_->info().version);
    response_->set_request_id(request_->request_id());
    response_->mutable_results()->Reserve(static_cast<int>(reply.results.size()));
    for (InputReply& input : reply.results) {
      auto* result = response_->add_results();
      result->set_tokens(static_cast<uint32_t>(input.tokens));
      if (input.status.ok()) {
        ConvertResult(*request_, *model_, std::move(input.result), result);
      } else {
        *result->mutable_error() = ToError(input.status);
      }
    }
    *response_->mutable_timing() = ConvertTiming(reply.timing);
    response_->mutable_timing()->set_total_ns(static_cast<uint64_t>(clock_->NowNs() - arrival_ns_));
    Finish(grpc::Status::OK);
  }

  const Clock* const clock_;
  grpc::CallbackServerContext* const context_;
  const Request* const request_;
  Response* const response_;
  const int64_t arrival_ns_;
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  ModelRegistry::Admission admission_;
  ModelService* model_ = nullptr;
};

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

template <class Request, class Response>
class RefusedStream final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  explicit RefusedStream(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerUnaryReactor* LionServiceImpl::ListModels(grpc::CallbackServerContext* context,
                                                      const v1::ListModelsRequest*, v1::ListModelsResponse* response) {
  return AnswerAtOnce(registry_, context, [this, response] {
    for (const ModelService* model : registry_->models()) *response->add_models() = DescribeModel(*model);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* LionServiceImpl::GetModel(grpc::CallbackServerContext* context,
                                                    const v1::GetModelRequest* request, v1::Model* response) {
  return AnswerAtOnce(registry_, context, [this, request, response] {
    absl::StatusOr<ModelService*> model = registry_->Find(request->model());
    if (model.ok()) *response = DescribeModel(**model);
    return model.status();
  });
}

grpc::ServerUnaryReactor* LionServiceImpl::Embed(grpc::CallbackServerContext* context, const v1::EmbedRequest* request,
                                                 v1::EmbedResponse* response) {
  return new InferenceReactor(registry_, clock_, context, request, response);
}

grpc::ServerUnaryReactor* LionServiceImpl::Classify(grpc::CallbackServerContext* context,
                                                    const v1::ClassifyRequest* request,
                                                    v1::ClassifyResponse* response) {
  return new InferenceReactor(registry_, clock_, context, request, response);
}

grpc::ServerUnaryReactor* LionServiceImpl::FillMask(grpc::CallbackServerContext* context, const v1::FillMaskRequest*,
                                                    v1::FillMaskResponse*) {
  return AnswerAtOnce(registry_, context, [] { return NotOffered("FillMask"); });
}

grpc::ServerUnaryReactor* LionServiceImpl::Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest*,
                                                    v1::TokenizeResponse*) {
  return AnswerAtOnce(registry_, context, [] { return NotOffered("Tokenize"); });
}

grpc::ServerBidiReactor<v1::EmbedRequest, v1::EmbedResponse>* LionServiceImpl::EmbedStream(
    grpc::CallbackServerContext*) {
  return new RefusedStream<v1::EmbedRequest, v1::EmbedResponse>(NotOffered("EmbedStream"));
}

grpc::ServerBidiReactor<v1::ClassifyRequest, v1::ClassifyResponse>* LionServiceImpl::ClassifyStream(
    grpc::CallbackServerContext*) {
  return new RefusedStream<v1::ClassifyRequest, v1::ClassifyResponse>(NotOffered("ClassifyStream"));
}

}  // namespace lion
