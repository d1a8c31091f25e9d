// One JSON object per file or model: what --json and .jsonl outputs hold. Bytes that are not UTF-8 become U+FFFD.
#pragma once

#include <string>

#include "client/cli/transport.h"
#include "lion/v1/lion.pb.h"

namespace lion {

// All without a line end.
// {"file":"7.png","scores":[{"index":7,"label":"7","score":0.99}],"tokens":50}
// {"file":"7.png","error":{"code":"INVALID_ARGUMENT","message":"truncated PNG"}}
std::string ClassifyJson(const std::string& file, const ImageResult& result);

// {"file":"7.png","embedding":[0.1,0.2],"tokens":50}; with `per_token`: [[0.1,0.2],[0.3,0.4]], one row per token.
std::string EmbedJson(const std::string& file, const ImageResult& result, bool per_token);

// {"a":"x.png","b":"y.png","cosine":0.99}
std::string SimilarJson(const std::string& a, const std::string& b, float cosine);

// The fields of Model by their names in lion.proto; enum values in lower case without their prefix.
std::string ModelJson(const v1::Model& model);

}  // namespace lion
