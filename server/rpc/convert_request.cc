#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/rpc/convert.h"
#include "server/text_preparer.h"

namespace lion {
namespace {

absl::StatusOr<enum Resize> ConvertResize(v1::ImageOptions::Resize resize, enum Resize model) {
  switch (resize) {
    case v1::ImageOptions::RESIZE_UNSPECIFIED:
      return model;
    case v1::ImageOptions::RESIZE_CENTER_CROP:
      return Resize::kCenterCrop;
    case v1::ImageOptions::RESIZE_STRETCH:
      return Resize::kStretch;
    case v1::ImageOptions::RESIZE_LONG_SIDE:
      return Resize::kLongSide;
    case v1::ImageOptions::RESIZE_NONE:
      return Resize::kNone;
    default:
      return absl::InvalidArgumentError(absl::StrCat("options.image.resize: ", int{resize}, " is not a known value"));
  }
}

absl::StatusOr<Pooling> ConvertPooling(v1::Pooling pooling, const ModelConfig& config) {
  switch (pooling) {
    case v1::POOLING_UNSPECIFIED:
      return config.pooling;
    case v1::POOLING_MEAN:
      return Pooling::kMean;
    case v1::POOLING_CLS:
      return Pooling::kCls;
    case v1::POOLING_POOLER:
      if (!config.pooler) return absl::InvalidArgumentError("pooling: the model has no pooler (POOLING_POOLER)");
      return Pooling::kPooler;
    case v1::POOLING_MAX:
      return Pooling::kMax;
    case v1::POOLING_LAST:
      return Pooling::kLast;
    case v1::POOLING_NONE:
      return Pooling::kNone;
    default:
      return absl::InvalidArgumentError(absl::StrCat("pooling: ", int{pooling}, " is not a known value"));
  }
}

absl::StatusOr<ImageInput> ConvertPixels(const v1::PixelTensor& tensor) {
  const bool is_float = tensor.type() == v1::PixelTensor::TYPE_FLOAT32;
  if (!is_float && tensor.type() != v1::PixelTensor::TYPE_UINT8) {
    return absl::InvalidArgumentError(absl::StrCat("pixels.type: ", int{tensor.type()}, " is not a known value"));
  }
  const uint64_t element_bytes = is_float ? 4 : 1;
  const std::string shape = absl::StrCat("[3, height ", tensor.height(), ", width ", tensor.width(), "]");
  if (tensor.height() == 0 || tensor.width() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("pixels: the shape ", shape, " has a side of 0"));
  }
  uint64_t expected = 0;
  if (__builtin_mul_overflow(uint64_t{tensor.height()} * tensor.width(), 3 * element_bytes, &expected) ||
      expected != tensor.data().size()) {
    return absl::InvalidArgumentError(absl::StrCat("pixels.data has ", tensor.data().size(),
                                                   " bytes; planar RGB of shape ", shape, ", ",
                                                   is_float ? "float32" : "uint8", ", takes 3 * ", tensor.height(),
                                                   " * ", tensor.width(), " * ", element_bytes, " bytes"));
  }
  return ImageInput{is_float ? PixelLayout::kPlanarFloat32 : PixelLayout::kPlanarUint8, tensor.data().data(),
                    tensor.height(), tensor.width()};
}

// `given`: "text"; `taken`: "images (image or pixels)".
absl::Status WrongKind(const ModelService& model, const char* given, const char* taken) {
  return absl::InvalidArgumentError(
      absl::StrCat(given, " was given, but the model '", model.info().name, "' takes ", taken));
}

InferenceInput ConvertImage(const v1::Input& input, const ModelService& model) {
  constexpr char kTaken[] = "images (image or pixels)";
  InferenceInput converted;
  switch (input.value_case()) {
    case v1::Input::kImage:
      converted.encoded = input.image();
      if (input.image().empty()) converted.status = absl::InvalidArgumentError("image is empty: 0 bytes");
      break;
    case v1::Input::kPixels:
      if (absl::StatusOr<ImageInput> pixels = ConvertPixels(input.pixels()); pixels.ok()) {
        converted.pixels = *pixels;
      } else {
        converted.status = pixels.status();
      }
      break;
    case v1::Input::kText:
    case v1::Input::kTextPair:
    case v1::Input::kTokens:
      converted.status = WrongKind(model, "text", kTaken);
      break;
    case v1::Input::VALUE_NOT_SET:
      converted.status = absl::InvalidArgumentError("no value is set: want image or pixels");
      break;
  }
  return converted;
}

std::span<const int64_t> Span(const google::protobuf::RepeatedField<int64_t>& values) {
  return {values.data(), static_cast<size_t>(values.size())};
}

InferenceInput ConvertText(const v1::Input& input, const ModelService& model) {
  InferenceInput converted;
  switch (input.value_case()) {
    case v1::Input::kText:
      converted.text = TextOrPair{input.text(), std::nullopt};
      break;
    case v1::Input::kTextPair:
      converted.text = TextOrPair{input.text_pair().first(), input.text_pair().second()};
      break;
    case v1::Input::kTokens:
      converted.tokens = GivenTokens{Span(input.tokens().ids()), Span(input.tokens().type_ids())};
      break;
    case v1::Input::kImage:
    case v1::Input::kPixels:
      converted.status = WrongKind(model, "an image", "text (text, text_pair or tokens)");
      break;
    case v1::Input::VALUE_NOT_SET:
      converted.status = absl::InvalidArgumentError("no value is set: want text, text_pair or tokens");
      break;
  }
  return converted;
}

absl::StatusOr<TextTruncation> ConvertTruncation(v1::Truncation truncation, TextTruncation server) {
  switch (truncation) {
    case v1::TRUNCATION_UNSPECIFIED:
      return server;
    case v1::TRUNCATION_NONE:
      return TextTruncation::kNone;
    case v1::TRUNCATION_END:
      return TextTruncation::kEnd;
    case v1::TRUNCATION_START:
      return TextTruncation::kStart;
    default:
      return absl::InvalidArgumentError(absl::StrCat("options.truncation: ", int{truncation}, " is not a known value"));
  }
}

template <class Request>
absl::Status ConvertInputs(const Request& request, const ModelService& model, InferenceCall* call) {
  // Before anything is made for each of them.
  if (absl::Status status = model.CheckInputCount(request.inputs_size()); !status.ok()) return status;
  const auto convert = model.engine().config().modality == Modality::kText ? ConvertText : ConvertImage;
  call->inputs.reserve(static_cast<size_t>(request.inputs_size()));
  for (const v1::Input& input : request.inputs()) call->inputs.push_back(convert(input, model));
  return absl::OkStatus();
}

absl::Status ConvertImageOptions(const v1::ImageOptions& options, const ImageConfig& model,
                                 ImagePreprocessOptions* out) {
  out->config = model;
  absl::StatusOr<enum Resize> resize = ConvertResize(options.resize(), model.resize);
  if (!resize.ok()) return resize.status();
  out->config.resize = *resize;
  if (options.size() > 0) out->config.size = options.size();
  if (options.crop_ratio() != 0) {
    if (!(options.crop_ratio() > 0 && options.crop_ratio() <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("options.image.crop_ratio: got ", options.crop_ratio(), ", want more than 0 and at most 1"));
    }
    out->config.crop_ratio = AsWritten(options.crop_ratio());
  }
  out->decode.apply_exif_orientation = !options.has_apply_exif_orientation() || options.apply_exif_orientation();
  out->decode.allow_truncated = options.allow_truncated();
  return absl::OkStatus();
}

// Everything that inference requests have in common.
template <class Request>
absl::Status ConvertCommon(const Request& request, const ModelService& model, InferenceCall* call) {
  const v1::RequestOptions& options = request.options();
  if (options.priority() > uint32_t{kMaxPriority}) {
    return absl::InvalidArgumentError(
        absl::StrCat("options.priority: got ", options.priority(), ", want 0 to ", kMaxPriority));
  }
  absl::StatusOr<TextTruncation> truncation = ConvertTruncation(options.truncation(), model.options().truncation);
  if (!truncation.ok()) return truncation.status();
  if (absl::Status status = ConvertImageOptions(options.image(), model.engine().config().image, &call->image);
      !status.ok()) {
    return status;
  }
  call->text.truncation = *truncation;
  call->priority = static_cast<int>(options.priority());
  call->partial_results = options.partial_results();
  if (options.timeout_ms() > 0) {
    call->deadline_ns = std::min(call->deadline_ns, call->arrival_ns + int64_t{options.timeout_ms()} * 1'000'000);
  }
  return ConvertInputs(request, model, call);
}

// `head`: or whatever else a call needs.
absl::Status NoHead(const ModelService& model, const char* head) {
  return absl::FailedPreconditionError(absl::StrCat("the model '", model.info().name, "' has no ", head));
}

}  // namespace

double AsWritten(float value) {
  char text[32];  // the longest, "-1.17549435e-38", takes 15
  const std::to_chars_result written = std::to_chars(std::begin(text), std::end(text), value);
  double result = value;
  std::from_chars(std::begin(text), written.ptr, result);
  return result;
}

absl::Status ConvertRequest(const v1::EmbedRequest& request, const ModelService& model, InferenceCall* call) {
  const ModelConfig& config = model.engine().config();
  absl::StatusOr<Pooling> pooling = ConvertPooling(request.pooling(), config);
  if (!pooling.ok()) return pooling.status();
  if (request.dimensions() > config.width) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimensions: got ", request.dimensions(), ", the model's embeddings have ", config.width));
  }
  call->embedding = true;
  call->pooling = *pooling;
  return ConvertCommon(request, model, call);
}

absl::Status ConvertRequest(const v1::ClassifyRequest& request, const ModelService& model, InferenceCall* call) {
  if (model.engine().config().classes == 0) {
    return NoHead(model, "classification head");
  }
  call->logits = true;
  call->class_scores = request.top_k() == 0 ? model.engine().config().classes
                                            : std::min<int64_t>(request.top_k(), model.engine().config().classes);
  return ConvertCommon(request, model, call);
}

absl::Status ConvertRequest(const v1::FillMaskRequest& request, const ModelService& model, InferenceCall* call) {
  constexpr int64_t kDefaultPredictions = 5;
  if (!model.engine().config().masked_lm) return NoHead(model, "masked-token head");
  if (model.tokenizer() == nullptr) return NoHead(model, kNoTokenizer);
  if (!model.tokenizer()->mask_id().has_value()) return NoHead(model, "mask token in its vocabulary");
  call->predictions = request.top_k() == 0 ? kDefaultPredictions : int64_t{request.top_k()};
  return ConvertCommon(request, model, call);
}

absl::Status ConvertRequest(const v1::TokenizeRequest& request, const ModelService& model, InferenceCall* call) {
  if (model.engine().config().modality != Modality::kText) return NoHead(model, "tokenizer: it takes images");
  if (model.tokenizer() == nullptr) return NoHead(model, kNoTokenizer);
  call->encoding = true;
  call->text.special_tokens = !request.no_special_tokens();
  call->partial_results = request.partial_results();
  if (absl::Status status = ConvertInputs(request, model, call); !status.ok()) return status;
  for (InferenceInput& input : call->inputs) {
    if (input.tokens.has_value()) {
      input.status = absl::InvalidArgumentError("tokens were given: want text or text_pair");
    }
  }
  return absl::OkStatus();
}

}  // namespace lion
