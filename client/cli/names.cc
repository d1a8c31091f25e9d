#include "client/cli/names.h"

#include "absl/strings/ascii.h"

namespace lion {
namespace {

// "POOLING_MEAN" -> "mean"
std::string WithoutPrefix(const std::string& name, size_t prefix, int value) {
  if (value == 0) return "";
  return name.empty() ? std::to_string(value) : absl::AsciiStrToLower(name.substr(prefix));
}

}  // namespace

const std::map<std::string, v1::Pooling>& Poolings() {
  static const auto* const kPoolings = new std::map<std::string, v1::Pooling>{
      {"mean", v1::POOLING_MEAN}, {"cls", v1::POOLING_CLS},   {"pooler", v1::POOLING_POOLER},
      {"max", v1::POOLING_MAX},   {"last", v1::POOLING_LAST}, {"none", v1::POOLING_NONE}};
  return *kPoolings;
}

const std::map<std::string, v1::Truncation>& Truncations() {
  static const auto* const kTruncations = new std::map<std::string, v1::Truncation>{
      {"none", v1::TRUNCATION_NONE}, {"end", v1::TRUNCATION_END}, {"start", v1::TRUNCATION_START}};
  return *kTruncations;
}

const std::map<std::string, v1::ImageOptions::Resize>& Resizes() {
  static const auto* const kResizes =
      new std::map<std::string, v1::ImageOptions::Resize>{{"center_crop", v1::ImageOptions::RESIZE_CENTER_CROP},
                                                          {"stretch", v1::ImageOptions::RESIZE_STRETCH},
                                                          {"long_side", v1::ImageOptions::RESIZE_LONG_SIDE},
                                                          {"none", v1::ImageOptions::RESIZE_NONE}};
  return *kResizes;
}

std::string PoolingText(v1::Pooling pooling) {
  return WithoutPrefix(v1::Pooling_Name(pooling), sizeof("POOLING_") - 1, pooling);
}

std::string ResizeText(v1::ImageOptions::Resize resize) {
  return WithoutPrefix(v1::ImageOptions::Resize_Name(resize), sizeof("RESIZE_") - 1, resize);
}

std::string ModalityText(v1::Model::Modality modality) {
  return WithoutPrefix(v1::Model::Modality_Name(modality), sizeof("MODALITY_") - 1, modality);
}

}  // namespace lion
