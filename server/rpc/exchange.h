// One inference request and its response, whether it is a call of its own or one of a stream.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/byte_account.h"
#include "server/clock.h"
#include "server/model_registry.h"
#include "server/pushback.h"
#include "server/rpc/convert.h"
#include "server/rpc/messages.h"
#include "server/rpc/status.h"

namespace lion {

// What requests need of the server; outlives them.
struct ExchangeContext {
  ModelRegistry* registry = nullptr;
  const Clock* clock = nullptr;
  ByteAccount* memory = nullptr;  // charged with every request and response from arrival until the response is sent
};

// Whose share of the device a call takes: its connection's.
inline uint64_t CallerOf(const grpc::CallbackServerContext& context) {
  return std::hash<std::string>()(context.peer());
}

// The deadline of a call, of the server's clock. The context's is of the system's clock: read once, so that a step of
// that clock cannot move it.
inline int64_t DeadlineNs(const grpc::CallbackServerContext& context, int64_t now_ns) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return kNever;
  const std::chrono::nanoseconds left = deadline - std::chrono::system_clock::now();
  return left.count() > kNever - now_ns ? kNever : now_ns + left.count();
}

// An empty input is 2 bytes on the wire and some 60 in memory: more of them than any model takes are not parsed.
inline absl::Status CheckInputCount(const ModelRegistry& registry, int64_t inputs) {
  absl::Status status;
  for (const ModelService* model : registry.models()) {
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
  // `caller`, `deadline_ns`: of its call or stream.
  Exchange(const ExchangeContext& context, uint64_t caller, int64_t arrival_ns, int64_t deadline_ns)
      : context_(context), caller_(caller), arrival_ns_(arrival_ns), deadline_ns_(deadline_ns) {}

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
    absl::StatusOr<ByteAccount::Charge> charge =
        context_.memory->Take(parsed_ ? static_cast<int64_t>(request_.ByteSizeLong()) : Length(message));
    if (!charge.ok()) return charge.status();
    charge_ = *std::move(charge);
    if (!parsed_) {
      if (absl::Status status = CheckInputCount(*context_.registry, CountInputs<Request>(message)); !status.ok()) {
        return status;
      }
      if (absl::Status status = Parse(message, &request_); !status.ok()) return status;
      parsed_ = true;
    }
    absl::StatusOr<ModelService*> model = context_.registry->Find(request_.model());
    if (!model.ok()) return model.status();
    model_ = *model;
    InferenceCall call;
    call.arrival_ns = arrival_ns_;
    call.deadline_ns = deadline_ns_;
    call.caller = caller_;
    call.memory = &charge_;
    if (absl::Status status = ConvertRequest(request_, *model_, &call); !status.ok()) return status;
    return model_->Run(std::move(call), abandoned_, std::move(answer));
  } catch (const std::bad_alloc&) {
    return TryAgainIn(kUnknownPushbackMs, "no memory to accept the call");
  }

  // Nobody waits for the answer any more. From any thread.
  void Abandon() { abandoned_->store(true, std::memory_order_relaxed); }

  // What says whose response it is: also of one that holds an error.
  void FillHead(Response* response) const {
    // What did not parse has left half a request, maybe with an id that is not UTF-8.
    if (parsed_) response->set_request_id(request_.request_id());
    if (model_ == nullptr) return;
    response->set_model(model_->info().name);
    response->set_model_version(model_->info().version);
  }

  // `reply` has status OK. RESOURCE_EXHAUSTED: there is no memory for it.
  absl::Status Fill(InferenceReply reply, Response* response) const try {
    FillHead(response);
    response->mutable_results()->Reserve(static_cast<int>(reply.results.size()));
    for (InputReply& input : reply.results) {
      auto* result = response->add_results();
      result->set_tokens(static_cast<uint32_t>(input.tokens));
      if (input.status.ok()) {
        ConvertResult(request_, *model_, std::move(input.result), result);
      } else {
        *result->mutable_error() = ToError(input.status);
      }
    }
    *response->mutable_timing() = ConvertTiming(reply.timing);
    response->mutable_timing()->set_total_ns(static_cast<uint64_t>(context_.clock->NowNs() - arrival_ns_));
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
  static int64_t Length(const grpc::ByteBuffer* message) { return static_cast<int64_t>(message->Length()); }

  const ExchangeContext context_;
  const uint64_t caller_;
  const int64_t arrival_ns_;
  const int64_t deadline_ns_;
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  bool admitted_ = false;
  bool parsed_ = false;
  Request request_;
  ModelRegistry::Admission admission_;
  ByteAccount::Charge charge_;
  ModelService* model_ = nullptr;
};

}  // namespace lion
