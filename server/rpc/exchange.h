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
#include <string_view>
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

// An empty input is 2 bytes on the wire and some 60 in memory: more of them than any model takes are not parsed.
inline absl::Status CheckInputCount(const ModelRegistry& registry, int64_t inputs) {
  absl::Status status;
  for (const SharedModel& model : registry.models()) {
    if (inputs <= model->options().max_inputs_per_call) return absl::OkStatus();
    status = model->CheckInputCount(inputs);
  }
  return status;
}

// `Rpc` is what an API has of its own: how its messages become a call and a reply becomes messages. One object for each
// request, of a type with
//   using Request, Response;                 messages
//   static constexpr RpcMethod kMethod;      what metrics count it as
//   static absl::StatusOr<Outline> OutlineOf(const grpc::ByteBuffer* message);
//   static std::string_view ModelOf(const Request&, const CallFacts&);  empty: the only one
//   // The call's inputs point into the request and this object. INVALID_ARGUMENT, NOT_FOUND or FAILED_PRECONDITION for
//   // what concerns the whole call; a bad input carries its own status.
//   absl::Status Convert(const Request&, const ModelService&, InferenceCall*);
//   // What says whose response it is, also of one that holds an error. Null: nothing is known.
//   void FillHead(const Request*, const ModelService*, Response*) const;
//   // `reply` has status OK. `since_arrival` is asked last.
//   absl::Status Fill(const Request&, const ModelService&, InferenceReply reply,
//                     const std::function<int64_t()>& since_arrival_ns, Response*) const;
// and for streams what StreamReactor asks for.
//
// Holds what the request holds of the server until it is destroyed. Not thread-safe, but for Abandon; must live until
// `answer` has been called.
template <class Rpc>
class Exchange {
 public:
  using Request = typename Rpc::Request;
  using Response = typename Rpc::Response;

  Exchange(const ExchangeContext& context, CallFacts facts, int64_t arrival_ns)
      : context_(context), facts_(std::move(facts)), arrival_ns_(arrival_ns) {
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
      absl::StatusOr<Outline> outline = Rpc::OutlineOf(message);
      if (!outline.ok()) return outline.status();
      outline_ = *outline;
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
      absl::StatusOr<SharedModel> model = context_.registry->Find(Rpc::ModelOf(request_, facts_));
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
    if (absl::Status status = rpc_.Convert(request_, *model_, &call); !status.ok()) return status;
    computes_ = !call.encoding;
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
    metrics_->CountRequest(Rpc::kMethod, code, now_ns - arrival_ns_);
    if (facts_.origin != nullptr) Log(code, now_ns);
    if (computes_ && code == absl::StatusCode::kOk) {
      model_->statistics().CountSuccess(timing_, now_ns - computed_ns_, now_ns - arrival_ns_);
    } else if (computes_) {
      model_->statistics().CountFailure(now_ns - arrival_ns_);
    }
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

  void FillHead(Response* response) const {
    // What did not parse has left half a request, maybe with an id that is not UTF-8.
    rpc_.FillHead(parsed_ ? &request_ : nullptr, model_.get(), response);
  }

  // `reply` has status OK. RESOURCE_EXHAUSTED: there is no memory for it.
  absl::Status Fill(InferenceReply reply, Response* response) try {
    computed_ns_ = context_.clock->NowNs();
    timing_ = reply.timing;
    FillHead(response);
    return rpc_.Fill(
        request_, *model_, std::move(reply), [this] { return context_.clock->NowNs() - arrival_ns_; }, response);
  } catch (const std::bad_alloc&) {
    return TryAgainIn(kUnknownPushbackMs, "no memory for the reply");
  }

  const Rpc& rpc() const { return rpc_; }

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
    record_.method = Rpc::kMethod;
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
  const CallFacts facts_;
  const int64_t arrival_ns_;
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  bool admitted_ = false;
  bool parsed_ = false;
  Outline outline_;
  Request request_;
  Rpc rpc_;
  ModelRegistry::Admission admission_;
  ByteAccount::Charge charge_;
  SharedModel model_;     // until it is answered
  RequestRecord record_;  // for the log, if there is one
  ModelMetrics* metrics_ = &ModelMetrics::None();
  bool in_flight_ = false;
  bool computes_ = false;  // what it asks for: with model_, it counts in the model's statistics
  CallTiming timing_;
  int64_t computed_ns_ = 0;  // when the response began to be made
};

}  // namespace lion
