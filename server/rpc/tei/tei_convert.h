// Between the messages of tei.v1 and the service's own types.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "server/model_service.h"
#include "tei/v1/tei.pb.h"

namespace lion {

// What a request asks for; the call's inputs point into it. INVALID_ARGUMENT, saying what was found and expected;
// FAILED_PRECONDITION: the model has no such head, or takes images.
absl::Status ConvertTei(const tei::v1::EmbedRequest& request, const ModelService& model, InferenceCall* call);
absl::Status ConvertTei(const tei::v1::EmbedAllRequest& request, const ModelService& model, InferenceCall* call);
absl::Status ConvertTei(const tei::v1::PredictRequest& request, const ModelService& model, InferenceCall* call);
absl::Status ConvertTei(const tei::v1::PredictPairRequest& request, const ModelService& model, InferenceCall* call);
absl::Status ConvertTei(const tei::v1::RerankRequest& request, const ModelService& model, InferenceCall* call);
absl::Status ConvertTei(const tei::v1::EncodeRequest& request, const ModelService& model, InferenceCall* call);

// The response to `reply`, whose results are OK; without metadata.
void FillTei(const tei::v1::EmbedRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::EmbedResponse* response);
void FillTei(const tei::v1::EmbedAllRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::EmbedAllResponse* response);
void FillTei(const tei::v1::PredictRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::PredictResponse* response);
void FillTei(const tei::v1::PredictPairRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::PredictResponse* response);
void FillTei(const tei::v1::RerankRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::RerankResponse* response);
void FillTei(const tei::v1::EncodeRequest& request, const ModelService& model, InferenceReply* reply,
             tei::v1::EncodeResponse* response);

// Characters of the texts, as UTF-8 has them.
int64_t CountCharacters(const tei::v1::EmbedRequest& request);
int64_t CountCharacters(const tei::v1::EmbedAllRequest& request);
int64_t CountCharacters(const tei::v1::PredictRequest& request);
int64_t CountCharacters(const tei::v1::PredictPairRequest& request);
int64_t CountCharacters(const tei::v1::RerankRequest& request);
int64_t CountCharacters(const tei::v1::EncodeRequest& request);

tei::v1::InfoResponse DescribeTei(const ModelService& model, const std::string& version);

}  // namespace lion
