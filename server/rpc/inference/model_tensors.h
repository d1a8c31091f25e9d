// Which tensors a model takes and gives: what metadata, configuration and requests go by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inference/inference.pb.h"
#include "server/model_service.h"

namespace lion {

namespace tensor {
inline constexpr char kText[] = "text";
inline constexpr char kInputIds[] = "input_ids";
inline constexpr char kAttentionMask[] = "attention_mask";
inline constexpr char kTokenTypeIds[] = "token_type_ids";
inline constexpr char kImage[] = "image";
inline constexpr char kPixels[] = "pixels";
inline constexpr char kEmbeddings[] = "embeddings";
inline constexpr char kLogits[] = "logits";
inline constexpr char kProbabilities[] = "probabilities";
inline constexpr char kTokenCount[] = "token_count";
inline constexpr char kTokenIds[] = "token_ids";
inline constexpr char kTokens[] = "tokens";
inline constexpr char kScores[] = "scores";
}  // namespace tensor

struct TensorSpec {
  std::string name;
  std::string datatype;       // "FP32"
  std::vector<int64_t> dims;  // without the batch; -1: any
  bool named_only = false;    // an output that is computed only where it is asked for by name
};

// Each is an alternative, or goes with one: none is needed in every request.
std::vector<TensorSpec> InputsOf(const ModelService& model);
std::vector<TensorSpec> OutputsOf(const ModelService& model);

// "'text', 'input_ids'"
std::string NamesOf(const std::vector<TensorSpec>& tensors);

inference::ModelMetadataResponse DescribeTensors(const ModelService& model);
inference::ModelConfig DescribeConfig(const ModelService& model);

}  // namespace lion
