#include "model_loader/image_settings.h"

#include <cmath>

#include "model_loader/bytes.h"

namespace lion {
namespace {

constexpr int64_t kMaxSize = 1 << 16;  // pixels a side

void SettleSize(Source& config_file, Source& arguments, ModelConfig& config, Findings& findings) {
  Decision size("image size", "");
  size.ClaimInteger(config_file, "img_size");
  size.ClaimInteger(arguments, "input_size");
  if (config.position_grid > 0 && config.patch_size > 0 && config.patch_size <= kMaxSize) {
    const int64_t pixels = config.position_grid * config.patch_size;
    size.Default(pixels, std::to_string(pixels), "the position grid");
  } else {
    size.Default(config.image.size, std::to_string(config.image.size), "default");
  }
  const auto pixels = size.Settle(findings);
  if (!pixels) return;
  config.image.size = *pixels;
  if (*pixels < config.patch_size || *pixels > kMaxSize) {
    findings.problems.push_back(
        Concat("image size: ", *pixels, " is not between the patch size ", config.patch_size, " and ", kMaxSize));
  }
}

// Three numbers, of x / 255 in R, G, B.
void ReadChannels(Source& config_file, const char* key, bool positive, std::array<float, 3>& channels,
                  Findings& findings) {
  const nlohmann::json* value = config_file.Value(key);
  if (value == nullptr) return;
  bool good = value->is_array() && value->size() == 3;
  std::array<float, 3> numbers{};
  for (size_t i = 0; good && i < 3; ++i) {
    good = (*value)[i].is_number();
    if (good) numbers[i] = (*value)[i].get<float>();
    good = good && std::isfinite(numbers[i]) && (!positive || numbers[i] > 0);
  }
  if (!good) {
    findings.problems.push_back(
        Concat(config_file.Origin(key), " is not an array of three ", positive ? "positive " : "", "numbers"));
    return;
  }
  channels = numbers;
  findings.Note(key, Concat(numbers[0], ", ", numbers[1], ", ", numbers[2]), config_file.Origin(key));
}

}  // namespace

void SettleImage(Source& config_file, Source& arguments, ModelConfig& config, Findings& findings) {
  SettleSize(config_file, arguments, config, findings);
  ReadChannels(config_file, "image_mean", false, config.image.mean, findings);
  ReadChannels(config_file, "image_std", true, config.image.std, findings);
  if (const auto ratio = config_file.Real("crop_ratio")) {
    if (*ratio > 0 && *ratio <= 1) {
      config.image.crop_ratio = *ratio;
      findings.Note("crop ratio", Concat(*ratio), config_file.Origin("crop_ratio"));
    } else {
      findings.problems.push_back(Concat(config_file.Origin("crop_ratio"), " is ", *ratio, ", expected (0, 1]"));
    }
  }
  Decision resize("resize", "");
  ClaimName(resize, config_file, "resize", ParseResize, ResizeName, "center_crop, stretch, long_side, none");
  resize.Default(static_cast<int64_t>(config.image.resize), std::string(ResizeName(config.image.resize)), "default");
  if (const auto value = resize.Settle(findings)) config.image.resize = static_cast<Resize>(*value);
}

}  // namespace lion
