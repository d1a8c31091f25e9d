#include "server/rpc/inference/infer_inputs.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/rpc/inference/model_tensors.h"

namespace lion {
namespace {

// Null: there is none of that name.
const InputTensor* Find(const std::vector<InputTensor>& tensors, std::string_view name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [name](const InputTensor& one) { return one.name() == name; });
  return found == tensors.end() ? nullptr : &*found;
}

absl::Status CheckNames(const std::vector<InputTensor>& tensors, const ModelService& model) {
  const std::vector<TensorSpec> specs = InputsOf(model);
  for (const InputTensor& one : tensors) {
    const auto has_name = [&one](const TensorSpec& spec) { return spec.name == one.name(); };
    if (std::any_of(specs.begin(), specs.end(), has_name)) continue;
    return OfTensor(one.name(), absl::StrCat("the model '", model.info().name, "' takes ", NamesOf(specs)));
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const std::vector<InputTensor>& tensors, const ModelService& model) {
  if (tensors.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("got no inputs, want of ", NamesOf(InputsOf(model))));
  }
  const int64_t batch = tensors[0].shape()[0];
  for (const InputTensor& one : tensors) {
    if (one.shape()[0] == batch) continue;
    return OfTensor(one.name(), absl::StrCat("the shape is ", ShapeText(one.shape()), ", want a batch of ", batch,
                                             " as of input '", std::string(tensors[0].name()), "'"));
  }
  return model.CheckInputCount(batch);
}

absl::Status CheckDatatype(const InputTensor& tensor, std::string_view wanted) {
  if (tensor.datatype() == wanted) return absl::OkStatus();
  return OfTensor(tensor.name(),
                  absl::StrCat("the datatype is ", std::string(tensor.datatype()), ", want ", std::string(wanted)));
}

absl::Status WrongShape(const InputTensor& tensor, const char* wanted) {
  return OfTensor(tensor.name(), absl::StrCat("the shape is ", ShapeText(tensor.shape()), ", want ", wanted));
}

// A file or a text for each element of the batch.
absl::StatusOr<std::vector<std::string_view>> ReadBatchOfBytes(const InputTensor& tensor) {
  if (absl::Status status = CheckDatatype(tensor, "BYTES"); !status.ok()) return status;
  const std::span<const int64_t> shape = tensor.shape();
  if (shape.size() > 2 || (shape.size() == 2 && shape[1] != 1)) return WrongShape(tensor, "[N] or [N, 1]");
  return ReadBytes(tensor);
}

absl::Status ReadImages(const InputTensor& tensor, InferenceCall* call) {
  absl::StatusOr<std::vector<std::string_view>> files = ReadBatchOfBytes(tensor);
  if (!files.ok()) return files.status();
  for (const std::string_view file : *files) {
    InferenceInput& input = call->inputs.emplace_back();
    input.encoded = file;
    if (file.empty()) input.status = absl::InvalidArgumentError("image is empty: 0 bytes");
  }
  return absl::OkStatus();
}

absl::Status ReadPixelBatch(const InputTensor& tensor, std::vector<uint8_t>* narrowed, InferenceCall* call) {
  const bool is_float = tensor.datatype() == "FP32";
  if (!is_float && tensor.datatype() != "UINT8") return CheckDatatype(tensor, "FP32 (normalised) or UINT8");
  const std::span<const int64_t> shape = tensor.shape();
  if (shape.size() != 4 || shape[1] != 3) return WrongShape(tensor, "[N, 3, height, width], planar RGB");
  absl::StatusOr<const void*> pixels = ReadPixels(tensor, narrowed);
  if (!pixels.ok()) return pixels.status();
  // What is there fits into memory, and so does its size in bytes.
  const int64_t image_bytes = 3 * shape[2] * shape[3] * (is_float ? 4 : 1);
  for (int64_t i = 0; i < shape[0]; ++i) {
    call->inputs.emplace_back().pixels =
        ImageInput{is_float ? PixelLayout::kPlanarFloat32 : PixelLayout::kPlanarUint8,
                   static_cast<const char*>(*pixels) + i * image_bytes, shape[2], shape[3]};
  }
  return absl::OkStatus();
}

absl::Status ReadTexts(const InputTensor& tensor, InferenceCall* call) {
  absl::StatusOr<std::vector<std::string_view>> texts = ReadBatchOfBytes(tensor);
  if (!texts.ok()) return texts.status();
  for (const std::string_view text : *texts) call->inputs.emplace_back().text = TextOrPair{text, std::nullopt};
  return absl::OkStatus();
}

// Where the tokens of a sequence are, between the padding on its left and on its right.
struct Unpadded {
  size_t begin = 0, count = 0;
};

absl::StatusOr<Unpadded> FindTokens(std::span<const int64_t> mask) {
  const auto wrong = std::find_if(mask.begin(), mask.end(), [](int64_t value) { return value != 0 && value != 1; });
  if (wrong != mask.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention_mask: place ", wrong - mask.begin(), " is ", *wrong, ", want 0 (padding) or 1"));
  }
  const auto begin = std::find(mask.begin(), mask.end(), 1);
  const auto end = std::find(begin, mask.end(), 0);
  if (begin == mask.end()) return absl::InvalidArgumentError("attention_mask: all of it is 0, want a token at least");
  if (const auto more = std::find(end, mask.end(), 1); more != mask.end()) {
    return absl::InvalidArgumentError(absl::StrCat("attention_mask: 0 at place ", end - mask.begin(),
                                                   " between tokens, want padding on the left or the right"));
  }
  return Unpadded{static_cast<size_t>(begin - mask.begin()), static_cast<size_t>(end - begin)};
}

// [N, L], and `like` those of the token ids.
absl::Status CheckIds(const InputTensor& tensor, const InputTensor& like) {
  if (absl::Status status = CheckDatatype(tensor, "INT64"); !status.ok()) return status;
  const std::span<const int64_t> shape = tensor.shape();
  if (shape.size() != 2) return WrongShape(tensor, "[N, L]");
  if (std::equal(shape.begin(), shape.end(), like.shape().begin(), like.shape().end())) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat(ShapeText(like.shape()), " as of input_ids").c_str());
}

absl::Status ReadTokens(const InputTensor& ids, const InputTensor* mask, const InputTensor* types,
                        InferenceCall* call) {
  for (const InputTensor* const one : {&ids, mask, types}) {
    if (one == nullptr) continue;
    if (absl::Status status = CheckIds(*one, ids); !status.ok()) return status;
  }
  const auto batch = static_cast<size_t>(ids.shape()[0]);
  const auto length = static_cast<size_t>(ids.shape()[1]);
  for (size_t i = 0; i < batch; ++i) {
    InferenceInput& input = call->inputs.emplace_back();
    Unpadded tokens = {0, length};
    if (mask != nullptr) {
      absl::StatusOr<Unpadded> found = FindTokens(ReadInt64(*mask).subspan(i * length, length));
      if (!found.ok()) input.status = found.status();
      tokens = found.value_or(Unpadded());
    }
    const size_t begin = i * length + tokens.begin;
    input.tokens = GivenTokens{ReadInt64(ids).subspan(begin, tokens.count), {}};
    if (types != nullptr) input.tokens->type_ids = ReadInt64(*types).subspan(begin, tokens.count);
  }
  return absl::OkStatus();
}

absl::Status OneOf(const InputTensor* first, const InputTensor* second, const char* names) {
  if ((first == nullptr) != (second == nullptr)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("got ", first == nullptr ? "neither" : "both", " of the inputs ", names, ", want one of them"));
}

}  // namespace

absl::Status ReadInputs(const inference::ModelInferRequest& request, const ModelService& model,
                        std::vector<uint8_t>* narrowed, InferenceCall* call) {
  const absl::StatusOr<std::vector<InputTensor>> tensors = ReadTensors(request);
  if (!tensors.ok()) return tensors.status();
  if (absl::Status status = CheckNames(*tensors, model); !status.ok()) return status;
  if (absl::Status status = CheckBatch(*tensors, model); !status.ok()) return status;
  call->inputs.reserve(static_cast<size_t>((*tensors)[0].shape()[0]));
  if (model.engine().config().modality == Modality::kVision) {
    const InputTensor* const image = Find(*tensors, tensor::kImage);
    const InputTensor* const pixels = Find(*tensors, tensor::kPixels);
    if (absl::Status status = OneOf(image, pixels, "'image' and 'pixels'"); !status.ok()) return status;
    return image != nullptr ? ReadImages(*image, call) : ReadPixelBatch(*pixels, narrowed, call);
  }
  const InputTensor* const text = Find(*tensors, tensor::kText);
  const InputTensor* const ids = Find(*tensors, tensor::kInputIds);
  const InputTensor* const mask = Find(*tensors, tensor::kAttentionMask);
  const InputTensor* const types = Find(*tensors, tensor::kTokenTypeIds);
  if (absl::Status status = OneOf(text, ids, "'text' and 'input_ids'"); !status.ok()) return status;
  if (ids != nullptr) return ReadTokens(*ids, mask, types, call);
  if (mask != nullptr || types != nullptr) {
    return OfTensor((mask != nullptr ? mask : types)->name(), "it goes with 'input_ids', and there is 'text'");
  }
  return ReadTexts(*text, call);
}

}  // namespace lion
