#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/convert.h"

namespace lion {
namespace {

// Divides by the L2 norm. A zero vector stays zero. The sum is float64, so that no finite float32 vector overflows it.
void Normalize(std::span<float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  if (sum == 0) return;
  const double scale = 1 / std::sqrt(sum);
  for (float& value : values) value = static_cast<float>(value * scale);
}

// Probabilities in place, stable: nothing overflows.
void Softmax(std::span<float> values) {
  const float highest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (float& value : values) {
    value = std::exp(value - highest);
    sum += value;
  }
  for (float& value : values) value = static_cast<float>(value / sum);
}

v1::Pooling ConvertPooling(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return v1::POOLING_MEAN;
    case Pooling::kCls:
      return v1::POOLING_CLS;
    case Pooling::kPooler:
      return v1::POOLING_POOLER;
    case Pooling::kMax:
      return v1::POOLING_MAX;
    case Pooling::kLast:
      return v1::POOLING_LAST;
    case Pooling::kNone:
      return v1::POOLING_NONE;
  }
  return v1::POOLING_UNSPECIFIED;
}

v1::ImageOptions::Resize ConvertResize(enum Resize resize) {
  switch (resize) {
    case Resize::kCenterCrop:
      return v1::ImageOptions::RESIZE_CENTER_CROP;
    case Resize::kStretch:
      return v1::ImageOptions::RESIZE_STRETCH;
    case Resize::kLongSide:
      return v1::ImageOptions::RESIZE_LONG_SIDE;
    case Resize::kNone:
      return v1::ImageOptions::RESIZE_NONE;
  }
  return v1::ImageOptions::RESIZE_UNSPECIFIED;
}

}  // namespace

void ConvertResult(const v1::EmbedRequest& request, const ModelService& model, Result result, v1::EmbedResult* out) {
  const ModelConfig& config = model.engine().config();
  const auto width = static_cast<size_t>(config.width);
  const size_t kept = request.dimensions() == 0 ? width : request.dimensions();
  const auto rows = static_cast<size_t>(result.rows);
  std::vector<float>& values = result.embedding;
  // The kept columns of each row move to the front; source and target may overlap, the target is never behind.
  for (size_t row = 0; kept < width && row < rows; ++row) {
    std::copy_n(values.begin() + static_cast<int64_t>(row * width), kept,
                values.begin() + static_cast<int64_t>(row * kept));
  }
  values.resize(rows * kept);
  if (request.has_normalize() ? request.normalize() : config.normalize) {
    for (size_t row = 0; row < rows; ++row) Normalize(std::span(values).subspan(row * kept, kept));
  }
  v1::Embedding* embedding = out->mutable_embedding();
  embedding->set_rows(static_cast<uint32_t>(rows));
  embedding->set_dimensions(static_cast<uint32_t>(kept));
  if (request.packed_bytes()) {
    embedding->set_data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  } else {
    embedding->mutable_values()->Add(values.begin(), values.end());
  }
}

void ConvertResult(const v1::ClassifyRequest& request, const ModelService& model, Result result,
                   v1::ClassifyResult* out) {
  const ModelConfig& config = model.engine().config();
  std::vector<float>& scores = result.logits;
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t shown = request.top_k() == 0 ? order.size() : std::min<size_t>(request.top_k(), order.size());
  // By the logits, in which classes still differ whose probabilities have both become 0; then by index.
  std::partial_sort(
      order.begin(), order.begin() + static_cast<int64_t>(shown), order.end(),
      [&scores](uint32_t a, uint32_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  if (!request.raw_scores() && !config.regression) Softmax(scores);
  v1::Classification* classification = out->mutable_classification();
  classification->mutable_scores()->Reserve(static_cast<int>(shown));
  for (size_t i = 0; i < shown; ++i) {
    v1::ClassScore* score = classification->add_scores();
    score->set_index(order[i]);
    score->set_label(order[i] < config.labels.size() ? config.labels[order[i]] : absl::StrCat(order[i]));
    score->set_score(scores[order[i]]);
  }
}

v1::Timing ConvertTiming(const CallTiming& timing) {
  v1::Timing out;
  out.set_preprocess_ns(static_cast<uint64_t>(timing.preprocess_ns));
  out.set_queue_ns(static_cast<uint64_t>(timing.queue_ns));
  out.set_compute_ns(static_cast<uint64_t>(timing.compute_ns));
  out.set_batch_inputs(static_cast<uint32_t>(timing.batch_inputs));
  out.set_batch_tokens(static_cast<uint32_t>(timing.batch_tokens));
  return out;
}

v1::Model DescribeModel(const ModelService& model) {
  const Engine& engine = model.engine();
  const ModelConfig& config = engine.config();
  v1::Model out;
  out.set_name(model.info().name);
  out.set_version(model.info().version);
  out.set_modality(config.modality == Modality::kVision ? v1::Model::MODALITY_VISION : v1::Model::MODALITY_TEXT);
  out.set_variant(std::string(VariantName(config.variant)));
  out.set_parameters(static_cast<uint64_t>(model.info().parameters));
  out.set_embedding_dimensions(static_cast<uint32_t>(config.width));
  for (const std::string& label : config.labels) out.add_labels(label);
  out.set_masked_lm(config.masked_lm);
  out.set_max_tokens(static_cast<uint32_t>(model.options().max_input_tokens));
  out.set_device(engine.device());
  out.set_compute_type(std::string(ComputeTypeName(engine.compute_type())));
  out.set_weight_bytes(static_cast<uint64_t>(engine.weight_bytes()));
  out.set_bytes_per_token(static_cast<uint64_t>(engine.bytes_per_token()));
  out.set_weights(model.info().weights);
  out.set_pooling(ConvertPooling(config.pooling));
  out.set_normalize(config.normalize);
  if (config.modality == Modality::kVision) {
    out.set_patch_order(std::string(PatchOrderName(config.order)));
    out.set_image_size(static_cast<uint32_t>(config.image.size));
    out.set_patch_size(static_cast<uint32_t>(config.patch_size));
    out.mutable_image()->set_resize(ConvertResize(config.image.resize));
    out.mutable_image()->set_size(static_cast<uint32_t>(config.image.size));
    out.mutable_image()->set_apply_exif_orientation(true);
    out.mutable_image()->set_crop_ratio(static_cast<float>(config.image.crop_ratio));
    out.mutable_image_mean()->Add(config.image.mean.begin(), config.image.mean.end());
    out.mutable_image_std()->Add(config.image.std.begin(), config.image.std.end());
    out.set_max_image_pixels(static_cast<uint64_t>(model.options().max_image_pixels));
  }
  out.add_tasks("embed");
  if (config.classes > 0) out.add_tasks(config.regression ? "regress" : "classify");
  return out;
}

}  // namespace lion
