// Calls to a real server, through the client library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/stream_calls.h"
#include "client/cli/transport.h"
#include "lion/client.h"

namespace lion {

struct ImageCallOptions {
  std::string model;  // may be empty when the server has one model
  v1::ImageOptions image;

  uint32_t top_k = 5;  // 0: all classes
  bool raw_scores = false;

  v1::Pooling pooling = v1::POOLING_UNSPECIFIED;
  std::optional<bool> normalize;  // unset: the model's own setting
  uint32_t dimensions = 0;        // 0: all
};

// Both keep a pointer to `client`, which must outlive them. `stream`: unset for unary calls only.
class ClassifyTransport : public Transport {
 public:
  ClassifyTransport(Client* client, const ImageCallOptions& options,
                    const std::optional<StreamCallOptions>& stream = std::nullopt);
  absl::StatusOr<std::vector<ImageResult>> Call(std::span<const std::string> images) override;

 private:
  v1::ClassifyRequest prototype_;
  StreamCalls<v1::ClassifyRequest, v1::ClassifyResponse> calls_;
};

class EmbedTransport : public Transport {
 public:
  EmbedTransport(Client* client, const ImageCallOptions& options,
                 const std::optional<StreamCallOptions>& stream = std::nullopt);
  absl::StatusOr<std::vector<ImageResult>> Call(std::span<const std::string> images) override;

 private:
  v1::EmbedRequest prototype_;
  StreamCalls<v1::EmbedRequest, v1::EmbedResponse> calls_;
};

}  // namespace lion
