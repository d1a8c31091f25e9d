// One inference request and its response, whether it is a call of its own or one of a stream.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/byte_account.h"
#include "server/clock.h"
#include "server/metrics/metrics.h"
#include "server/model_registry.h"
#include "server/pushback.h"
#include "server/request_log.h"
#include "server/rpc/call_facts.h"
#include "server/rpc/convert.h"
#include "server/rpc/messages.h"
#include "server/rpc/status.h"

namespace lion {

// What requests need of the server; outlives them.
struct ExchangeContext {
  ModelRegistry* registry = nullptr;
  const Clock* clock = nullptr;
  ByteAccount* memory = nullptr;  // charged with every request and response from arrival until the response is sent
  Metrics* metrics = nullptr;     // null: what names no model is not counted
  RequestLog* log = nullptr;      // null: no request is logged
};

// Of the calls, and of the streams of the same requests.
template <class Request>
constexpr RpcMethod MethodOf(bool stream) {
  if constexpr (std::is_same_v<Request, v1::EmbedRequest>) return stream ? RpcMethod::kEmbedStream : RpcMethod::kEmbed;
  if constexpr (std::is_same_v<Request, v1::ClassifyRequest>) {
    return stream ? RpcMethod::kClassifyStream : RpcMethod::kClassify;
  }
  if constexpr (std::is_same_v<Request, v1::FillMaskRequest>) return RpcMethod::kFillMask;
  if constexpr (std::is_same_v<Request, v1::TokenizeRequest>) return RpcMethod::kTokenize;
}

// An empty input is 2 bytes on the wire and some 60 in memory: more of them than any model takes are not parsed.
inline absl::Status CheckInputCount(const ModelRegistry& registry, int64_t inputs) {
  absl::Status status;
  for (const SharedModel& model : registry.models()) {
    if (inputs <= model->options().max_inputs_per_call) return absl::OkStatus();
    status = model->CheckInputCount(inputs);
  }
  return status;
}

// Holds what the request holds of the server until it is destroyed. Not thread-safe, but for Abandon; must live until
// `answer` has been called.
template <class Request, class Response>
class Exchange {
 public:
  Exchange(const ExchangeContext& context, RpcMethod method, CallFacts facts, int64_t arrival_ns)
      : context_(context), method_(method), facts_(std::move(facts)), arrival_ns_(arrival_ns) {
    if (context.metrics != nullptr) metrics_ = &context.metrics->unknown();
  }
  ~Exchange() { EndFlight(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Takes the request in and has it computed: `answer` is then called once. An error is the answer, and `answer` is not
  // called; after RESOURCE_EXHAUSTED it may be started again with the same `message`.
  absl::Status Start(const grpc::ByteBuffer* message, std::function<void(InferenceReply)> answer) try {
    if (!admitted_) {
      absl::StatusOr<ModelRegistry::Admission> admission = context_.registry->Enter();
      if (!admission.ok()) return admission.status();
      admission_ = *std::move(admission);
      admitted_ = true;
    }
    // What an earlier try has charged for its reply goes back.
    charge_ = ByteAccount::Charge();
    if (!parsed_) {
      // gRPC hands a call on without its message where the caller has gone, or its time, before all of it was there.
      if (!message->Valid()) {
        return context_.clock->NowNs() >= facts_.deadline_ns
                   ? absl::DeadlineExceededError("the deadline passed before the request had arrived")
                   : absl::CancelledError("cancelled before the request had arrived");
      }
      outline_ = OutlineOf<Request>(message);
    }
    absl::StatusOr<ByteAccount::Charge> charge = context_.memory->Take(outline_.bytes);
    if (!charge.ok()) return charge.status();
    charge_ = *std::move(charge);
    if (!parsed_) {
      if (absl::Status status = CheckInputCount(*context_.registry, outline_.inputs); !status.ok()) {
        return status;
      }
      if (absl::Status status = Parse(message, &request_); !status.ok()) return status;
      parsed_ = true;
    }
    // A request that is started again stays with the model that it began on.
    if (model_ == nullptr) {
      absl::StatusOr<SharedModel> model = context_.registry->Find(request_.model());
      if (!model.ok()) return model.status();
      model_ = *std::move(model);
      metrics_ = model_->info().metrics;
    }
    if (!std::exchange(in_flight_, true)) metrics_->AddInFlight(1);
    InferenceCall call;
    call.arrival_ns = arrival_ns_;
    call.deadline_ns = facts_.deadline_ns;
    call.caller = facts_.caller;
    call.memory = &charge_;
    call.keep_alive = model_;
    if (absl::Status status = ConvertRequest(request_, *model_, &call); !status.ok()) return status;
    // The answer may come before Run returns.
    if (facts_.origin != nullptr) record_.admit_ns = context_.clock->NowNs() - arrival_ns_;
    return model_->Run(std::move(call), abandoned_, std::move(answer));
  } catch (const std::bad_alloc&) {
    return TryAgainIn(kUnknownPushbackMs, "no memory to accept the call");
  }

  // Nobody waits for the answer any more. From any thread.
  void Abandon() { abandoned_->store(true, std::memory_order_relaxed); }

  // What the log says of the answer besides its code: before Count.
  void Note(const InferenceReply& reply) {
    if (facts_.origin == nullptr) return;
    record_.timing = reply.timing;
    for (const InputReply& input : reply.results) record_.tokens += input.tokens;
  }
  // To be called once, when the response is made: the request's answer is this. Lets go of its model, however slowly
  // the response is read.
  void Count(absl::StatusCode code) {
    const int64_t now_ns = context_.clock->NowNs();
    metrics_->CountRequest(method_, code, now_ns - arrival_ns_);
    if (facts_.origin != nullptr) Log(code, now_ns);
    // Before its caller can know the answer.
    EndFlight();
    metrics_ = &ModelMetrics::None();
    model_.reset();
  }
  // Besides, when it was Start that refused it for good.
  void CountRefused(absl::StatusCode code) {
    const std::optional<RejectReason> reason = RejectReasonOf(code);
    if (reason) metrics_->CountRejected(*reason, std::max<int64_t>(1, outline_.inputs));
  }

  // What says whose response it is: also of one that holds an error.
  void FillHead(Response* response) const {
    // What did not parse has left half a request, maybe with an id that is not UTF-8.
    if constexpr (requires { request_.request_id(); }) {
      if (parsed_) response->set_request_id(request_.request_id());
    }
    if constexpr (requires { response->mutable_model(); }) {
      if (model_ == nullptr) return;
      response->set_model(model_->info().name);
      response->set_model_version(model_->info().version);
    }
  }

  // `reply` has status OK. RESOURCE_EXHAUSTED: there is no memory for it.
  absl::Status Fill(InferenceReply reply, Response* response) const try {
    FillHead(response);
    response->mutable_results()->Reserve(static_cast<int>(reply.results.size()));
    for (InputReply& input : reply.results) {
      ConvertReply(request_, *model_, std::move(input), response->add_results());
    }
    if constexpr (requires { response->mutable_timing(); }) {
      *response->mutable_timing() = ConvertTiming(reply.timing);
      response->mutable_timing()->set_total_ns(static_cast<uint64_t>(context_.clock->NowNs() - arrival_ns_));
    }
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return TryAgainIn(kUnknownPushbackMs, "no memory for the reply");
  }

  // Gives the request's memory and its charge back; the admission stays.
  void FreeMemory() {
    Request().Swap(&request_);
    charge_ = ByteAccount::Charge();
  }

  int64_t charged_bytes() const { return charge_.bytes(); }

 private:
  void EndFlight() {
    if (std::exchange(in_flight_, false)) metrics_->AddInFlight(-1);
  }

  void Log(absl::StatusCode code, int64_t now_ns) {
    record_.method = method_;
    record_.code = code;
    record_.origin = facts_.origin.get();
    record_.inputs = outline_.inputs;
    record_.end_ns = now_ns;
    record_.total_ns = now_ns - arrival_ns_;
    if (model_ != nullptr) {
      record_.model = model_->info().name;
      record_.version = model_->info().version;
    }
    context_.log->Write(record_);
  }

  const ExchangeContext context_;
  const RpcMethod method_;
  const CallFacts facts_;
  const int64_t arrival_ns_;
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  bool admitted_ = false;
  bool parsed_ = false;
  Outline outline_;
  Request request_;
  ModelRegistry::Admission admission_;
  ByteAccount::Charge charge_;
  SharedModel model_;     // until it is answered
  RequestRecord record_;  // for the log, if there is one
  ModelMetrics* metrics_ = &ModelMetrics::None();
  bool in_flight_ = false;
};

}  // namespace lion
