// The inference calls of lion.v1, as Exchange wants them.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "server/rpc/convert.h"
#include "server/rpc/exchange.h"
#include "server/rpc/messages.h"
#include "server/rpc/status.h"

namespace lion {

template <class RequestMessage, class ResponseMessage, RpcMethod method>
struct LionRpc {
  using Request = RequestMessage;
  using Response = ResponseMessage;
  static constexpr RpcMethod kMethod = method;
  static constexpr bool kInOrder = false;
  static constexpr bool kErrorsEndStream = false;

  static absl::StatusOr<Outline> OutlineOf(const grpc::ByteBuffer* message) {
    return lion::OutlineOf<Request>(message);
  }
  static std::string_view ModelOf(const Request& request, const CallFacts& /*origin*/) { return request.model(); }

  static absl::Status Convert(const Request& request, const ModelService& model, InferenceCall* call) {
    return ConvertRequest(request, model, call);
  }

  static void FillHead(const Request* request, const ModelService* model, Response* response) {
    if constexpr (requires { request->request_id(); }) {
      if (request != nullptr) response->set_request_id(request->request_id());
    }
    if constexpr (requires { response->mutable_model(); }) {
      if (model == nullptr) return;
      response->set_model(model->info().name);
      response->set_model_version(model->info().version);
    }
  }

  static absl::Status Fill(const Request& request, const ModelService& model, InferenceReply reply,
                           const std::function<int64_t()>& since_arrival_ns, Response* response) {
    response->mutable_results()->Reserve(static_cast<int>(reply.results.size()));
    for (InputReply& input : reply.results) ConvertReply(request, model, std::move(input), response->add_results());
    if constexpr (requires { response->mutable_timing(); }) {
      *response->mutable_timing() = ConvertTiming(reply.timing);
      response->mutable_timing()->set_total_ns(static_cast<uint64_t>(since_arrival_ns()));
    }
    return absl::OkStatus();
  }

  static void FillError(const absl::Status& status, Response* response) {
    *response->mutable_error() = ToError(status);
  }
  static void FillSequence(uint64_t sequence, Response* response) { response->set_sequence(sequence); }
};

using EmbedRpc = LionRpc<v1::EmbedRequest, v1::EmbedResponse, RpcMethod::kEmbed>;
using ClassifyRpc = LionRpc<v1::ClassifyRequest, v1::ClassifyResponse, RpcMethod::kClassify>;
using FillMaskRpc = LionRpc<v1::FillMaskRequest, v1::FillMaskResponse, RpcMethod::kFillMask>;
using TokenizeRpc = LionRpc<v1::TokenizeRequest, v1::TokenizeResponse, RpcMethod::kTokenize>;
using EmbedStreamRpc = LionRpc<v1::EmbedRequest, v1::EmbedResponse, RpcMethod::kEmbedStream>;
using ClassifyStreamRpc = LionRpc<v1::ClassifyRequest, v1::ClassifyResponse, RpcMethod::kClassifyStream>;

}  // namespace lion
