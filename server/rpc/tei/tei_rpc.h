// The inference calls of tei.v1, as Exchange wants them.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "server/rpc/exchange.h"
#include "server/rpc/tei/tei_convert.h"

namespace lion {

// Strings of the field `texts` as `inputs`: more of them than a call may have are not parsed.
Outline OutlineOfTexts(const grpc::ByteBuffer* message, int texts);

// Where the time of a call went, in its initial metadata, in milliseconds.
void AddTeiHeaders(const tei::v1::Metadata& metadata, std::string_view device, grpc::CallbackServerContext* context);

tei::v1::Metadata ConvertTeiMetadata(const InferenceReply& reply, int64_t characters);

// `texts_field`: the number of the request's field of texts.
template <class RequestMessage, class ResponseMessage, RpcMethod method, int texts_field>
class TeiRpc {
 public:
  using Request = RequestMessage;
  using Response = ResponseMessage;
  static constexpr RpcMethod kMethod = method;
  static constexpr bool kInOrder = true;
  static constexpr bool kErrorsEndStream = true;

  static absl::StatusOr<Outline> OutlineOf(const grpc::ByteBuffer* message) {
    return OutlineOfTexts(message, texts_field);
  }
  static std::string_view ModelOf(const Request& /*request*/, const CallFacts& origin) { return origin.model; }
  static absl::Status Convert(const Request& request, const ModelService& model, InferenceCall* call) {
    return ConvertTei(request, model, call);
  }
  static void FillHead(const Request* /*request*/, const ModelService* /*model*/, Response* /*response*/) {}
  absl::Status Fill(const Request& request, const ModelService& model, InferenceReply reply,
                    const std::function<int64_t()>& since_arrival_ns, Response* response) {
    metadata_ = ConvertTeiMetadata(reply, CountCharacters(request));
    device_ = model.engine().device();
    FillTei(request, model, &reply, response);
    metadata_.set_total_time_ns(static_cast<uint64_t>(since_arrival_ns()));
    if constexpr (requires { response->mutable_metadata(); }) *response->mutable_metadata() = metadata_;
    return absl::OkStatus();
  }
  void AddHeaders(grpc::CallbackServerContext* context) const { AddTeiHeaders(metadata_, device_, context); }
  static void FillSequence(uint64_t /*sequence*/, Response* /*response*/) {}

 private:
  tei::v1::Metadata metadata_;  // of the answer
  std::string device_;
};

namespace tei_rpc {

using tei::v1::EmbedAllRequest;
using tei::v1::EmbedAllResponse;
using tei::v1::EmbedRequest;
using tei::v1::EmbedResponse;
using tei::v1::EncodeRequest;
using tei::v1::EncodeResponse;
using tei::v1::PredictPairRequest;
using tei::v1::PredictRequest;
using tei::v1::PredictResponse;
using tei::v1::RerankRequest;
using tei::v1::RerankResponse;

template <RpcMethod method>
using Embed = TeiRpc<EmbedRequest, EmbedResponse, method, EmbedRequest::kInputsFieldNumber>;
template <RpcMethod method>
using EmbedAll = TeiRpc<EmbedAllRequest, EmbedAllResponse, method, EmbedAllRequest::kInputsFieldNumber>;
template <RpcMethod method>
using Predict = TeiRpc<PredictRequest, PredictResponse, method, PredictRequest::kInputsFieldNumber>;
template <RpcMethod method>
using PredictPair = TeiRpc<PredictPairRequest, PredictResponse, method, PredictPairRequest::kInputsFieldNumber>;
template <RpcMethod method>
using Rerank = TeiRpc<RerankRequest, RerankResponse, method, RerankRequest::kTextsFieldNumber>;
template <RpcMethod method>
using Tokenize = TeiRpc<EncodeRequest, EncodeResponse, method, EncodeRequest::kInputsFieldNumber>;

}  // namespace tei_rpc
}  // namespace lion
