#include "server/rpc/inference/infer_rpc.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/inference/infer_inputs.h"
#include "server/rpc/status.h"
#include "server/utf8.h"

namespace lion {

absl::Status CheckVersion(const ModelService& model, std::string_view version) {
  constexpr size_t kShownBytes = 20;
  if (version.empty() || version == model.info().version) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the model '", model.info().name, "' serves version ", model.info().version,
                                          ", and not '", CutUtf8(version, kShownBytes), "'"));
}

absl::Status InferRpc::Convert(const Request& request, const ModelService& model, InferenceCall* call) {
  const ModelConfig& config = model.engine().config();
  if (absl::Status status = CheckVersion(model, request.model_version()); !status.ok()) return status;
  absl::StatusOr<InferOptions> options = ReadParameters(request.parameters());
  if (!options.ok()) return options.status();
  options_ = *options;
  if (options_.dimensions > config.width) {
    return absl::InvalidArgumentError(absl::StrCat("parameter 'dimensions': got ", options_.dimensions,
                                                   ", the model's embeddings have ", config.width));
  }
  if (options_.pooling == Pooling::kPooler && !config.pooler) {
    return absl::InvalidArgumentError("parameter 'pooling': got 'pooler', which the model does not have");
  }
  absl::StatusOr<std::vector<WantedOutput>> outputs = ReadOutputs(request, model);
  if (!outputs.ok()) return outputs.status();
  outputs_ = *std::move(outputs);
  // A request may be converted again.
  narrowed_.clear();
  if (absl::Status status = ReadInputs(request, model, &narrowed_, call); !status.ok()) return status;
  if (absl::Status status = WantOutputs(outputs_, options_, model, call); !status.ok()) return status;
  call->image.config = config.image;
  call->text.truncation = options_.truncation.value_or(model.options().truncation);
  call->priority = options_.priority;
  if (options_.timeout_ns > 0) {
    const int64_t left_ns = kNever - call->arrival_ns;
    call->deadline_ns = std::min(call->deadline_ns, call->arrival_ns + std::min(options_.timeout_ns, left_ns));
  }
  return absl::OkStatus();
}

void InferRpc::FillHead(const Request* request, const ModelService* model, Response* response) {
  if (request != nullptr) {
    response->set_id(request->id());
    response->set_model_name(request->model_name());
    response->set_model_version(request->model_version());
  }
  if (model == nullptr) return;
  response->set_model_name(model->info().name);
  response->set_model_version(model->info().version);
}

absl::Status InferRpc::Fill(const Request& /*request*/, const ModelService& model, InferenceReply reply,
                            const std::function<int64_t()>& /*since_arrival_ns*/, Response* response) const {
  return FillOutputs(outputs_, options_, model, std::move(reply.results), response);
}

void InferStreamRpc::FillError(const absl::Status& status, Response* response) {
  response->set_error_message(ToGrpcStatus(status).error_message());
}

}  // namespace lion
