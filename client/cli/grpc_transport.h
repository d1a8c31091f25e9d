// Calls to a real server, through the client library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/stream_calls.h"
#include "client/cli/transport.h"
#include "lion/client.h"

namespace lion {

struct InferenceOptions {
  std::string model;  // may be empty when the server has one model
  v1::ImageOptions image;
  v1::Truncation truncation = v1::TRUNCATION_UNSPECIFIED;

  uint32_t top_k = 5;  // classes, 0: all; or tokens for a mask
  bool raw_scores = false;

  v1::Pooling pooling = v1::POOLING_UNSPECIFIED;
  std::optional<bool> normalize;  // unset: the model's own setting
  uint32_t dimensions = 0;        // 0: all

  bool special_tokens = true;  // of tokenizing
};

// All keep a pointer to `client`, which must outlive them. `stream`: unset for unary calls only.
class ClassifyTransport : public Transport {
 public:
  ClassifyTransport(Client* client, const InferenceOptions& options,
                    const std::optional<StreamCallOptions>& stream = std::nullopt);
  absl::StatusOr<std::vector<InputResult>> Call(std::span<const v1::Input> inputs) override;

 private:
  v1::ClassifyRequest prototype_;
  StreamCalls<v1::ClassifyRequest, v1::ClassifyResponse> calls_;
};

class EmbedTransport : public Transport {
 public:
  EmbedTransport(Client* client, const InferenceOptions& options,
                 const std::optional<StreamCallOptions>& stream = std::nullopt);
  absl::StatusOr<std::vector<InputResult>> Call(std::span<const v1::Input> inputs) override;

 private:
  v1::EmbedRequest prototype_;
  StreamCalls<v1::EmbedRequest, v1::EmbedResponse> calls_;
};

class FillMaskTransport : public Transport {
 public:
  FillMaskTransport(Client* client, const InferenceOptions& options);
  absl::StatusOr<std::vector<InputResult>> Call(std::span<const v1::Input> inputs) override;

 private:
  Client* const client_;
  v1::FillMaskRequest prototype_;
};

class TokenizeTransport : public Transport {
 public:
  TokenizeTransport(Client* client, const InferenceOptions& options);
  absl::StatusOr<std::vector<InputResult>> Call(std::span<const v1::Input> inputs) override;

 private:
  Client* const client_;
  v1::TokenizeRequest prototype_;
};

}  // namespace lion
