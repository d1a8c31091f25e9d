// Between the messages of lion.v1 and the service's own types.
#pragma once

#include "absl/status/status.h"
#include "lion/v1/lion.pb.h"
#include "server/model_service.h"

namespace lion {

// What a request asks for. The call's inputs point into `request`, which must outlive the call. INVALID_ARGUMENT or
// FAILED_PRECONDITION for what concerns the whole call; a bad input carries its own status.
absl::Status ConvertRequest(const v1::EmbedRequest& request, const ModelService& model, InferenceCall* call);
absl::Status ConvertRequest(const v1::ClassifyRequest& request, const ModelService& model, InferenceCall* call);
absl::Status ConvertRequest(const v1::FillMaskRequest& request, const ModelService& model, InferenceCall* call);
absl::Status ConvertRequest(const v1::TokenizeRequest& request, const ModelService& model, InferenceCall* call);

// The double whose shortest decimal is that of `value`: 0.8f -> 0.8, as the sender wrote it, and not 0.800000011920929.
double AsWritten(float value);

// One input's reply, or its error.
void ConvertReply(const v1::EmbedRequest& request, const ModelService& model, InputReply reply, v1::EmbedResult* out);
void ConvertReply(const v1::ClassifyRequest& request, const ModelService& model, InputReply reply,
                  v1::ClassifyResult* out);
void ConvertReply(const v1::FillMaskRequest& request, const ModelService& model, InputReply reply,
                  v1::FillMaskResult* out);
void ConvertReply(const v1::TokenizeRequest& request, const ModelService& model, InputReply reply,
                  v1::TokenizedInput* out);

// All but total_ns.
v1::Timing ConvertTiming(const CallTiming& timing);

v1::Model DescribeModel(const ModelService& model);

}  // namespace lion
