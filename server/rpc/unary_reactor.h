// A unary inference call.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "server/rpc/exchange.h"
#include "server/rpc/messages.h"
#include "server/rpc/status.h"

namespace lion {

// From the call's request to the end of its response. Deletes itself when gRPC is done with it.
// `Rpc`: as of Exchange. Where it has AddHeaders(context), that adds to the initial metadata of a good answer, once
// Fill has made it.
template <class Rpc>
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  // What the handler of the call returns. A call that is refused on the spot is answered by gRPC's own reactor, whose
  // end needs no other thread: under overload these are most calls, and each hop takes time from those that are
  // computed.
  static grpc::ServerUnaryReactor* Open(const ExchangeContext& server, grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
    std::unique_ptr<UnaryReactor> call(new UnaryReactor(server, context, response, server.clock->NowNs()));
    // gRPC holds back Finish, and with it OnDone, until the handler has returned this reactor.
    const absl::Status status =
        call->exchange_.Start(request, [call = call.get()](InferenceReply reply) { call->Answer(std::move(reply)); });
    if (status.ok()) return call.release();
    call->exchange_.CountRefused(status.code());
    call->exchange_.FreeMemory();
    call->exchange_.Count(status.code());
    grpc::ServerUnaryReactor* const refusal = context->DefaultReactor();
    refusal->Finish(FinalStatus(status, context));
    return refusal;
  }

  void OnCancel() override { exchange_.Abandon(); }
  void OnDone() override { delete this; }

 private:
  UnaryReactor(const ExchangeContext& server, grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
               int64_t arrival_ns)
      : context_(context),
        response_(response),
        exchange_(server, FactsOf(*context, server.log, arrival_ns), arrival_ns) {}

  void Answer(InferenceReply reply) {
    exchange_.Note(reply);
    absl::Status status = reply.status;
    if (status.ok()) status = Reply(std::move(reply));
    if (!status.ok()) return Fail(status);
    exchange_.Count(absl::StatusCode::kOk);
    Finish(grpc::Status::OK);
  }

  absl::Status Reply(InferenceReply reply) try {
    typename Rpc::Response response;
    if (absl::Status status = exchange_.Fill(std::move(reply), &response); !status.ok()) return status;
    if constexpr (requires { exchange_.rpc().AddHeaders(context_); }) exchange_.rpc().AddHeaders(context_);
    return Serialize(response, response_);
  } catch (const std::bad_alloc&) {
    response_->Clear();
    return TryAgainIn(kUnknownPushbackMs, "no memory for the reply");
  }

  // What the call held is free before its caller knows, so that the next one finds the room.
  void Fail(const absl::Status& status) {
    exchange_.FreeMemory();
    exchange_.Count(status.code());
    Finish(FinalStatus(status, context_));
  }

  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  Exchange<Rpc> exchange_;
};

}  // namespace lion
