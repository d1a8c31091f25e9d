// ModelInfer and ModelStreamInfer, as Exchange wants them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "inference/inference.pb.h"
#include "server/rpc/exchange.h"
#include "server/rpc/inference/infer_outputs.h"
#include "server/rpc/inference/outline.h"
#include "server/rpc/inference/parameters.h"

namespace lion {

// `version`: as requested. NOT_FOUND: there is that model, but another version of it serves.
absl::Status CheckVersion(const ModelService& model, std::string_view version);

class InferRpc {
 public:
  using Request = inference::ModelInferRequest;
  using Response = inference::ModelInferResponse;
  static constexpr RpcMethod kMethod = RpcMethod::kModelInfer;

  static absl::StatusOr<Outline> OutlineOf(const grpc::ByteBuffer* message) { return OutlineOfInfer(message); }
  static std::string_view ModelOf(const Request& request, const CallFacts& /*origin*/) { return request.model_name(); }
  absl::Status Convert(const Request& request, const ModelService& model, InferenceCall* call);
  static void FillHead(const Request* request, const ModelService* model, Response* response);
  absl::Status Fill(const Request& request, const ModelService& model, InferenceReply reply,
                    const std::function<int64_t()>& since_arrival_ns, Response* response) const;

 private:
  InferOptions options_;
  std::vector<WantedOutput> outputs_;
  std::vector<uint8_t> narrowed_;  // pixels that came as wider numbers
};

// In order, as Triton's clients are used to.
class InferStreamRpc : public InferRpc {
 public:
  using Response = inference::ModelStreamInferResponse;
  static constexpr RpcMethod kMethod = RpcMethod::kModelStreamInfer;
  static constexpr bool kInOrder = true;
  static constexpr bool kErrorsEndStream = false;

  static void FillHead(const Request* request, const ModelService* model, Response* response) {
    InferRpc::FillHead(request, model, response->mutable_infer_response());
  }
  absl::Status Fill(const Request& request, const ModelService& model, InferenceReply reply,
                    const std::function<int64_t()>& since_arrival_ns, Response* response) const {
    return InferRpc::Fill(request, model, std::move(reply), since_arrival_ns, response->mutable_infer_response());
  }
  static void FillError(const absl::Status& status, Response* response);
  static void FillSequence(uint64_t /*sequence*/, Response* /*response*/) {}
};

}  // namespace lion
