#include "client/cli/grpc_transport.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/library/call_status.h"

namespace lion {
namespace {

static_assert(std::endian::native == std::endian::little, "Embedding.data is copied as it comes");

v1::RequestOptions CommonOptions(const InferenceOptions& options) {
  v1::RequestOptions common;
  common.set_partial_results(true);
  *common.mutable_image() = options.image;
  common.set_truncation(options.truncation);
  return common;
}

InputResult ToResult(const v1::ClassifyResult& from) {
  InputResult to;
  to.tokens = from.tokens();
  to.truncated = from.truncated();
  if (from.has_error()) {
    to.status = ToStatus(from.error());
  } else if (!from.has_classification()) {
    to.status = absl::InternalError("the server sent neither a classification nor an error");
  }
  if (!to.status.ok()) return to;
  to.scores.reserve(from.classification().scores_size());
  for (const v1::ClassScore& score : from.classification().scores()) {
    to.scores.push_back({score.index(), score.label(), score.score()});
  }
  return to;
}

InputResult ToResult(const v1::EmbedResult& from) {
  InputResult to;
  to.tokens = from.tokens();
  to.truncated = from.truncated();
  if (from.has_error()) {
    to.status = ToStatus(from.error());
    return to;
  }
  if (!from.has_embedding()) {
    to.status = absl::InternalError("the server sent neither an embedding nor an error");
    return to;
  }
  const v1::Embedding& embedding = from.embedding();
  to.rows = embedding.rows();
  to.dimensions = embedding.dimensions();
  if (embedding.values_size() > 0) {
    to.embedding.assign(embedding.values().begin(), embedding.values().end());
  } else {
    to.embedding.resize(embedding.data().size() / sizeof(float));
    if (!to.embedding.empty()) {
      std::memcpy(to.embedding.data(), embedding.data().data(), to.embedding.size() * sizeof(float));
    }
  }
  if (to.dimensions < 1 || static_cast<int64_t>(to.embedding.size()) != to.rows * to.dimensions) {
    to.status = absl::InternalError(absl::StrCat("the server sent ", to.embedding.size(),
                                                 " values for an embedding of ", to.rows, " x ", to.dimensions));
    to.embedding.clear();
  }
  return to;
}

InputResult ToResult(const v1::FillMaskResult& from) {
  InputResult to;
  to.tokens = from.tokens();
  to.truncated = from.truncated();
  if (from.has_error()) {
    to.status = ToStatus(from.error());
  } else if (from.has_filled()) {
    to.filled = from.filled();
  } else {
    to.status = absl::InternalError("the server sent neither predictions nor an error");
  }
  return to;
}

InputResult ToResult(const v1::TokenizedInput& from) {
  InputResult to;
  if (from.has_error()) {
    to.status = ToStatus(from.error());
  } else {
    to.tokenized = from;
  }
  return to;
}

template <typename Request>
Request WithInputs(const Request& prototype, std::span<const v1::Input> inputs) {
  Request request = prototype;
  request.mutable_inputs()->Add(inputs.begin(), inputs.end());
  return request;
}

template <typename Response>
absl::StatusOr<std::vector<InputResult>> ToResults(const absl::StatusOr<Response>& response) {
  if (!response.ok()) return response.status();
  std::vector<InputResult> results;
  results.reserve(response->results_size());
  for (const auto& result : response->results()) results.push_back(ToResult(result));
  return results;
}

// Of unary calls only.
StreamCallOptions WithoutStream() {
  StreamCallOptions options;
  options.max_bytes = 0;
  return options;
}

}  // namespace

ClassifyTransport::ClassifyTransport(Client* client, const InferenceOptions& options,
                                     const std::optional<StreamCallOptions>& stream)
    : calls_(
          stream.value_or(WithoutStream()), [client] { return client->OpenClassifyStream(); },
          [client](const v1::ClassifyRequest& request) { return client->Classify(request); }) {
  prototype_.set_model(options.model);
  *prototype_.mutable_options() = CommonOptions(options);
  prototype_.set_top_k(options.top_k);
  prototype_.set_raw_scores(options.raw_scores);
}

absl::StatusOr<std::vector<InputResult>> ClassifyTransport::Call(std::span<const v1::Input> inputs) {
  return ToResults(calls_.Call([&] { return WithInputs(prototype_, inputs); }));
}

EmbedTransport::EmbedTransport(Client* client, const InferenceOptions& options,
                               const std::optional<StreamCallOptions>& stream)
    : calls_(
          stream.value_or(WithoutStream()), [client] { return client->OpenEmbedStream(); },
          [client](const v1::EmbedRequest& request) { return client->Embed(request); }) {
  prototype_.set_model(options.model);
  *prototype_.mutable_options() = CommonOptions(options);
  prototype_.set_pooling(options.pooling);
  if (options.normalize.has_value()) prototype_.set_normalize(*options.normalize);
  prototype_.set_dimensions(options.dimensions);
  prototype_.set_packed_bytes(true);
}

absl::StatusOr<std::vector<InputResult>> EmbedTransport::Call(std::span<const v1::Input> inputs) {
  return ToResults(calls_.Call([&] { return WithInputs(prototype_, inputs); }));
}

FillMaskTransport::FillMaskTransport(Client* client, const InferenceOptions& options) : client_(client) {
  prototype_.set_model(options.model);
  *prototype_.mutable_options() = CommonOptions(options);
  prototype_.set_top_k(options.top_k);
}

absl::StatusOr<std::vector<InputResult>> FillMaskTransport::Call(std::span<const v1::Input> inputs) {
  return ToResults(client_->FillMask(WithInputs(prototype_, inputs)));
}

TokenizeTransport::TokenizeTransport(Client* client, const InferenceOptions& options) : client_(client) {
  prototype_.set_model(options.model);
  prototype_.set_no_special_tokens(!options.special_tokens);
  prototype_.set_partial_results(true);
}

absl::StatusOr<std::vector<InputResult>> TokenizeTransport::Call(std::span<const v1::Input> inputs) {
  return ToResults(client_->Tokenize(WithInputs(prototype_, inputs)));
}

}  // namespace lion
