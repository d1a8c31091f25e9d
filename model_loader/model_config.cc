#include "model_loader/model_config.h"

#include <cctype>
#include <utility>

namespace lion {
namespace {

template <typename Enum, size_t kCount>
std::optional<Enum> Parse(std::string_view name, const std::pair<std::string_view, Enum> (&names)[kCount]) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [known, value] : names) {
    if (known == lower) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view VariantName(Variant variant) {
  switch (variant) {
    case Variant::kLionLit:
      return "LION-LIT";
    case Variant::kLionD:
      return "LION-D";
    case Variant::kLionS:
      return "LION-S";
    case Variant::kSoftmax:
      return "softmax";
  }
  return "?";
}

std::string_view PatchOrderName(PatchOrder order) { return order == PatchOrder::kS ? "s" : "normal"; }

std::string_view PoolingName(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return "mean";
    case Pooling::kCls:
      return "cls";
    case Pooling::kPooler:
      return "pooler";
    case Pooling::kMax:
      return "max";
    case Pooling::kLast:
      return "last";
    case Pooling::kNone:
      return "none";
  }
  return "?";
}

std::string_view ResizeName(Resize resize) {
  switch (resize) {
    case Resize::kCenterCrop:
      return "center_crop";
    case Resize::kStretch:
      return "stretch";
    case Resize::kLongSide:
      return "long_side";
    case Resize::kNone:
      return "none";
  }
  return "?";
}

std::optional<Variant> ParseVariant(std::string_view name) {
  static constexpr std::pair<std::string_view, Variant> kNames[] = {
      {"lit", Variant::kLionLit},       {"lion-lit", Variant::kLionLit},  {"linear_attention", Variant::kLionLit},
      {"d", Variant::kLionD},           {"decay", Variant::kLionD},       {"lion-d", Variant::kLionD},
      {"lion-retnet", Variant::kLionD}, {"nova", Variant::kLionD},        {"s", Variant::kLionS},
      {"selective", Variant::kLionS},   {"lion-s", Variant::kLionS},      {"nova-inputdep", Variant::kLionS},
      {"softmax", Variant::kSoftmax},   {"attention", Variant::kSoftmax},
  };
  return Parse(name, kNames);
}

std::optional<PatchOrder> ParsePatchOrder(std::string_view name) {
  static constexpr std::pair<std::string_view, PatchOrder> kNames[] = {{"normal", PatchOrder::kNormal},
                                                                       {"s", PatchOrder::kS}};
  return Parse(name, kNames);
}

std::optional<Pooling> ParsePooling(std::string_view name) {
  static constexpr std::pair<std::string_view, Pooling> kNames[] = {
      {"mean", Pooling::kMean}, {"cls", Pooling::kCls},   {"pooler", Pooling::kPooler},
      {"max", Pooling::kMax},   {"last", Pooling::kLast}, {"none", Pooling::kNone}};
  return Parse(name, kNames);
}

std::optional<Resize> ParseResize(std::string_view name) {
  static constexpr std::pair<std::string_view, Resize> kNames[] = {{"center_crop", Resize::kCenterCrop},
                                                                   {"stretch", Resize::kStretch},
                                                                   {"long_side", Resize::kLongSide},
                                                                   {"none", Resize::kNone}};
  return Parse(name, kNames);
}

}  // namespace lion
