// One JSON object per input or model: what --json and .jsonl outputs hold. Bytes that are not UTF-8 become U+FFFD.
#pragma once

#include <string>

#include "client/cli/inputs.h"
#include "client/cli/transport.h"
#include "lion/v1/lion.pb.h"

namespace lion {

// All without a line end. Objects of inputs begin with where those came from:
//   {"file":"7.png", ...                           an image
//   {"index":2,"source":"--text", ...              a text; `index` is the input's number in the run, from 0
//   {"index":2,"source":"lines.txt","line":3, ...  the same of a file, from line 1
// and those of texts end with "tokens":50,"truncated":false where images have "tokens":50. Of what failed there is
// {"file":"7.png","error":{"code":"INVALID_ARGUMENT","message":"truncated PNG"}}

// {"file":"7.png","scores":[{"index":7,"label":"7","score":0.99}],"tokens":50}
std::string ClassifyJson(const BulkInput& input, const InputResult& result);

// {"file":"7.png","embedding":[0.1,0.2],"tokens":50}; with `per_token`: [[0.1,0.2],[0.3,0.4]], one row per token.
std::string EmbedJson(const BulkInput& input, const InputResult& result, bool per_token);

// {...,"masks":[{"position":2,"predictions":[{"id":4937,"token":"cat","probability":0.42}]}],"tokens":5,...}
std::string FillMaskJson(const BulkInput& input, const InputResult& result);

// {...,"tokens":[{"id":4937,"text":"cat","start_byte":4,"end_byte":7,"type_id":0}]}
std::string TokenizeJson(const BulkInput& input, const InputResult& result);

// {"a":"x.png","b":"y.png","cosine":0.99}
std::string SimilarJson(const std::string& a, const std::string& b, float cosine);

// The fields of Model by their names in lion.proto; enum values in lower case without their prefix.
std::string ModelJson(const v1::Model& model);

}  // namespace lion
