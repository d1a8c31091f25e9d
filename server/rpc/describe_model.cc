#include <string>

#include "server/rpc/convert.h"

namespace lion {
namespace {

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
  if (config.masked_lm) out.add_tasks("fill-mask");
  return out;
}

}  // namespace lion
