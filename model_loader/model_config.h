// What architecture a checkpoint holds and how its inputs are prepared. Plain values: design in docs/mathematics.md.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lion {

enum class Modality : uint8_t { kVision, kText };

// The table of variants in docs/mathematics.md, section 2.
enum class Variant : uint8_t { kLionLit, kLionD, kLionS, kSoftmax };
std::string_view VariantName(Variant variant);  // "LION-LIT", "LION-D", "LION-S", "softmax"
// The names above, the short ones of --mask-type (lit, d, s, softmax) and those of that table; in any case of letters.
std::optional<Variant> ParseVariant(std::string_view name);

enum class PatchOrder : uint8_t { kNormal, kS };
std::string_view PatchOrderName(PatchOrder order);  // "normal", "s"
std::optional<PatchOrder> ParsePatchOrder(std::string_view name);

enum class Pooling : uint8_t { kMean, kCls, kPooler, kMax, kLast, kNone };
std::string_view PoolingName(Pooling pooling);  // "mean", "cls", "pooler", "max", "last", "none"
std::optional<Pooling> ParsePooling(std::string_view name);

enum class Resize : uint8_t { kCenterCrop, kStretch, kLongSide, kNone };
std::string_view ResizeName(Resize resize);  // "center_crop", "stretch", "long_side", "none"
std::optional<Resize> ParseResize(std::string_view name);

// How an encoded image becomes the model's input.
struct ImageConfig {
  Resize resize = Resize::kCenterCrop;
  int64_t size = 224;                                    // pixels
  double crop_ratio = 0.875;                             // in (0, 1]
  std::array<float, 3> mean = {0.485f, 0.456f, 0.406f};  // of x / 255, RGB
  std::array<float, 3> std = {0.229f, 0.224f, 0.225f};
};

struct ModelConfig {
  Modality modality = Modality::kVision;
  Variant variant = Variant::kLionS;
  int64_t depth = 0;
  int64_t width = 0;      // D
  int64_t heads = 0;      // H; D = H * head_width()
  int64_t mlp_width = 0;  // 4 D as a rule
  double layer_norm_eps = 1e-6;
  Pooling pooling = Pooling::kMean;  // the embedding's default; vision heads use it too
  bool normalize = false;            // the embedding's default
  int64_t classes = 0;               // outputs of the classification or regression head; 0: no head
  bool regression = false;           // one output that is a score
  std::vector<std::string> labels;   // [classes], or empty

  // Vision.
  PatchOrder order = PatchOrder::kNormal;
  int64_t patch_size = 16;
  int64_t position_grid = 0;  // the position embeddings' grid is position_grid x position_grid; 0: none
  ImageConfig image;

  // Text.
  int64_t vocabulary = 0;     // real entries; the table may have more rows
  int64_t max_positions = 0;  // 0: no position embeddings, any length
  int64_t max_tokens =
      0;  // the longest text the model was made for, with [CLS] and [SEP]; 0: max_positions alone rules
  int64_t type_vocabulary = 0;
  bool mixer_layer_norm = false;  // layer_norm_after
  bool masked_lm = false;
  bool pooler = false;

  int64_t head_width() const { return width / heads; }
};

}  // namespace lion
