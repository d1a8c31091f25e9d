#include "server/rpc/lion_service.h"

#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/pushback.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"

namespace lion {
namespace {

// Takes the message out of gRPC's buffer. INTERNAL: it holds something else.
template <class Message>
absl::Status Parse(const grpc::ByteBuffer* buffer, Message* message) {
  // The buffer is gRPC's, and not a constant; emptied, so that what it held is not there twice.
  auto* mutable_buffer = const_cast<grpc::ByteBuffer*>(buffer);
  if (grpc::SerializationTraits<Message>::Deserialize(mutable_buffer, message).ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the request is not a valid ", Message::descriptor()->full_name(),
                                          " message (a string field that is not UTF-8?)"));
}

// The inputs of a request that is not parsed yet. What does not parse ends the count.
template <class Request>
int64_t CountInputs(const grpc::ByteBuffer* buffer) {
  using google::protobuf::internal::WireFormatLite;
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(buffer));  // which it only reads
  google::protobuf::io::CodedInputStream stream(&reader);
  int64_t inputs = 0;
  while (const uint32_t tag = stream.ReadTag()) {
    inputs += WireFormatLite::GetTagFieldNumber(tag) == Request::kInputsFieldNumber ? 1 : 0;
    if (!WireFormatLite::SkipField(&stream, tag)) break;
  }
  return inputs;
}

// An empty input is 2 bytes on the wire and some 60 in memory: more of them than any model takes are not parsed.
absl::Status CheckInputCount(const ModelRegistry& registry, int64_t inputs) {
  absl::Status status;
  for (const ModelService* model : registry.models()) {
    if (inputs <= model->options().max_inputs_per_call) return absl::OkStatus();
    status = model->CheckInputCount(inputs);
  }
  return status;
}

template <class Message>
absl::Status Serialize(const Message& message, grpc::ByteBuffer* buffer) {
  bool own_buffer = false;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, buffer, &own_buffer);
  return status.ok() ? absl::OkStatus() : absl::InternalError(status.error_message());
}

// One unary inference call, from its request to the end of its reply. Deletes itself when gRPC is done with it.
template <class Request, class Response>
class InferenceReactor final : public grpc::ServerUnaryReactor {
 public:
  InferenceReactor(ModelRegistry* registry, const Clock* clock, ByteAccount* memory,
                   grpc::CallbackServerContext* context, const grpc::ByteBuffer* request, grpc::ByteBuffer* response)
      : clock_(clock), context_(context), response_(response), arrival_ns_(clock->NowNs()) {
    // gRPC holds back Finish, and with it OnDone, until the handler has returned this reactor.
    if (absl::Status status = Start(registry, memory, request); !status.ok()) Fail(status);
  }

  void OnCancel() override { abandoned_->store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

 private:
  // An error is the call's answer; OK: Answer gives it.
  absl::Status Start(ModelRegistry* registry, ByteAccount* memory, const grpc::ByteBuffer* request) try {
    absl::StatusOr<ModelRegistry::Admission> admission = registry->Enter();
    if (!admission.ok()) return admission.status();
    admission_ = *std::move(admission);
    absl::StatusOr<ByteAccount::Charge> charge = memory->Take(static_cast<int64_t>(request->Length()));
    if (!charge.ok()) return charge.status();
    charge_ = *std::move(charge);
    if (absl::Status status = CheckInputCount(*registry, CountInputs<Request>(request)); !status.ok()) return status;
    if (absl::Status status = Parse(request, &request_); !status.ok()) return status;
    absl::StatusOr<ModelService*> model = registry->Find(request_.model());
    if (!model.ok()) return model.status();
    model_ = *model;
    InferenceCall call;
    call.arrival_ns = arrival_ns_;
    call.deadline_ns = DeadlineNs();
    call.memory = &charge_;
    if (absl::Status status = ConvertRequest(request_, *model_, &call); !status.ok()) return status;
    model_->Run(std::move(call), abandoned_, [this](InferenceReply reply) { Answer(std::move(reply)); });
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return TryAgainIn(kUnknownPushbackMs, "no memory to accept the call");
  }

  // The context's deadline is of the system's clock: read once, so that a step of that clock cannot move it.
  int64_t DeadlineNs() const {
    const std::chrono::system_clock::time_point deadline = context_->deadline();
    if (deadline == std::chrono::system_clock::time_point::max()) return kNever;
    const std::chrono::nanoseconds left = deadline - std::chrono::system_clock::now();
    return left.count() > kNever - arrival_ns_ ? kNever : arrival_ns_ + left.count();
  }

  void Answer(InferenceReply reply) {
    absl::Status status = reply.status;
    if (status.ok()) status = FillResponse(std::move(reply));
    if (status.ok()) return Finish(grpc::Status::OK);
    Fail(status);
  }

  // What the call held is free before its caller knows, so that the next one finds the room.
  void Fail(const absl::Status& status) {
    Request().Swap(&request_);
    charge_ = ByteAccount::Charge();
    Finish(FinalStatus(status, context_));
  }

  absl::Status FillResponse(InferenceReply reply) try {
    Response response;
    response.set_model(model_->info().name);
    response.set_model_version(model_->info().version);
    response.set_request_id(request_.request_id());
    response.mutable_results()->Reserve(static_cast<int>(reply.results.size()));
    for (InputReply& input : reply.results) {
      auto* result = response.add_results();
      result->set_tokens(static_cast<uint32_t>(input.tokens));
      if (input.status.ok()) {
        ConvertResult(request_, *model_, std::move(input.result), result);
      } else {
        *result->mutable_error() = ToError(input.status);
      }
    }
    *response.mutable_timing() = ConvertTiming(reply.timing);
    response.mutable_timing()->set_total_ns(static_cast<uint64_t>(clock_->NowNs() - arrival_ns_));
    return Serialize(response, response_);
  } catch (const std::bad_alloc&) {
    response_->Clear();
    return TryAgainIn(kUnknownPushbackMs, "no memory for the reply");
  }

  const Clock* const clock_;
  grpc::CallbackServerContext* const context_;
  Request request_;
  grpc::ByteBuffer* const response_;
  const int64_t arrival_ns_;
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  ModelRegistry::Admission admission_;
  ByteAccount::Charge charge_;
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
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerAtOnce(registry_, context, [this, request, response] {
    v1::ListModelsRequest parsed;
    if (absl::Status status = Parse(request, &parsed); !status.ok()) return status;
    v1::ListModelsResponse reply;
    for (const ModelService* model : registry_->models()) *reply.add_models() = DescribeModel(*model);
    return Serialize(reply, response);
  });
}

grpc::ServerUnaryReactor* LionServiceImpl::GetModel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerAtOnce(registry_, context, [this, request, response] {
    v1::GetModelRequest parsed;
    if (absl::Status status = Parse(request, &parsed); !status.ok()) return status;
    absl::StatusOr<ModelService*> model = registry_->Find(parsed.model());
    return model.ok() ? Serialize(DescribeModel(**model), response) : model.status();
  });
}

grpc::ServerUnaryReactor* LionServiceImpl::Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return new InferenceReactor<v1::EmbedRequest, v1::EmbedResponse>(registry_, clock_, memory_, context, request,
                                                                   response);
}

grpc::ServerUnaryReactor* LionServiceImpl::Classify(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return new InferenceReactor<v1::ClassifyRequest, v1::ClassifyResponse>(registry_, clock_, memory_, context, request,
                                                                         response);
}

grpc::ServerUnaryReactor* LionServiceImpl::FillMask(grpc::CallbackServerContext* context, const grpc::ByteBuffer*,
                                                    grpc::ByteBuffer*) {
  return AnswerAtOnce(registry_, context, [] { return NotOffered("FillMask"); });
}

grpc::ServerUnaryReactor* LionServiceImpl::Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer*,
                                                    grpc::ByteBuffer*) {
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
