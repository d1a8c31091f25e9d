#include "server/rpc/inference/model_tensors.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/batch_policy.h"

namespace lion {
namespace {

inference::DataType DataTypeOf(const std::string& datatype) {
  if (datatype == "BYTES") return inference::TYPE_STRING;
  return datatype == "FP32" ? inference::TYPE_FP32 : inference::TYPE_INT64;
}

constexpr char kPlatform[] = "lion";

}  // namespace

std::vector<TensorSpec> InputsOf(const ModelService& model) {
  if (model.engine().config().modality == Modality::kVision) {
    return {{tensor::kImage, "BYTES", {1}}, {tensor::kPixels, "FP32", {3, -1, -1}}};
  }
  std::vector<TensorSpec> inputs;
  if (model.tokenizer() != nullptr) inputs.push_back({tensor::kText, "BYTES", {1}});
  for (const char* const name : {tensor::kInputIds, tensor::kAttentionMask, tensor::kTokenTypeIds}) {
    inputs.push_back({name, "INT64", {-1}});
  }
  return inputs;
}

std::vector<TensorSpec> OutputsOf(const ModelService& model) {
  const ModelConfig& config = model.engine().config();
  std::vector<TensorSpec> outputs = {{tensor::kEmbeddings, "FP32", {config.width}}};
  if (config.classes > 0) outputs.push_back({tensor::kLogits, "FP32", {config.classes}});
  if (config.classes > 0 && !config.regression) outputs.push_back({tensor::kProbabilities, "FP32", {config.classes}});
  outputs.push_back({tensor::kTokenCount, "INT64", {1}});
  if (config.masked_lm && model.tokenizer() != nullptr && model.tokenizer()->mask_id().has_value()) {
    outputs.push_back({tensor::kTokenIds, "INT64", {-1}, true});
    outputs.push_back({tensor::kTokens, "BYTES", {-1}, true});
    outputs.push_back({tensor::kScores, "FP32", {-1}, true});
  }
  return outputs;
}

std::string NamesOf(const std::vector<TensorSpec>& tensors) {
  return absl::StrJoin(tensors, ", ",
                       [](std::string* out, const TensorSpec& spec) { absl::StrAppend(out, "'", spec.name, "'"); });
}

inference::ModelMetadataResponse DescribeTensors(const ModelService& model) {
  inference::ModelMetadataResponse out;
  out.set_name(model.info().name);
  out.add_versions(model.info().version);
  out.set_platform(kPlatform);
  const auto add = [](const TensorSpec& spec, inference::ModelMetadataResponse::TensorMetadata* tensor) {
    tensor->set_name(spec.name);
    tensor->set_datatype(spec.datatype);
    tensor->add_shape(-1);
    tensor->mutable_shape()->Add(spec.dims.begin(), spec.dims.end());
  };
  for (const TensorSpec& spec : InputsOf(model)) add(spec, out.add_inputs());
  for (const TensorSpec& spec : OutputsOf(model)) add(spec, out.add_outputs());
  return out;
}

inference::ModelConfig DescribeConfig(const ModelService& model) {
  inference::ModelConfig out;
  out.set_name(model.info().name);
  out.set_platform(kPlatform);
  out.set_backend(kPlatform);
  out.set_max_batch_size(static_cast<int32_t>(
      std::min<int64_t>(model.options().max_inputs_per_call, std::numeric_limits<int32_t>::max())));
  for (const TensorSpec& spec : InputsOf(model)) {
    inference::ModelInput* const input = out.add_input();
    input->set_name(spec.name);
    input->set_data_type(DataTypeOf(spec.datatype));
    input->mutable_dims()->Add(spec.dims.begin(), spec.dims.end());
    input->set_optional(true);
  }
  for (const TensorSpec& spec : OutputsOf(model)) {
    inference::ModelOutput* const output = out.add_output();
    output->set_name(spec.name);
    output->set_data_type(DataTypeOf(spec.datatype));
    output->mutable_dims()->Add(spec.dims.begin(), spec.dims.end());
  }
  inference::ModelInstanceGroup* const instance = out.add_instance_group();
  instance->set_name(model.info().name);
  instance->set_count(1);
  instance->set_kind(inference::ModelInstanceGroup::KIND_CPU);
  inference::ModelDynamicBatching* const batching = out.mutable_dynamic_batching();
  batching->set_max_queue_delay_microseconds(static_cast<uint64_t>(model.options().max_wait_us));
  batching->set_priority_levels(kMaxPriority + 1);
  batching->set_default_priority_level(kMaxPriority + 1);
  const auto parameter = [&out](const char* name, const std::string& value) {
    (*out.mutable_parameters())[name].set_string_value(value);
  };
  const ModelConfig& config = model.engine().config();
  parameter("variant", std::string(VariantName(config.variant)));
  parameter("pooling", std::string(PoolingName(config.pooling)));
  parameter("normalize", config.normalize ? "true" : "false");
  parameter("compute_type", std::string(ComputeTypeName(model.engine().compute_type())));
  parameter("max_tokens", absl::StrCat(model.options().max_input_tokens));
  return out;
}

}  // namespace lion
