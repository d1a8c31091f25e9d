// What config.json, the training arguments and the files of a sentence encoder say about a model, against its tensors'
// names and shapes.
#include <array>

#include "model_loader/json.h"
#include "model_loader/utf8.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/model.h"
#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using testing::Gates;
using testing::Shapes;

// Of data only that there are some matters: all tensors share these.
constexpr std::array<float, 1024> kZeros = {};

// Gives the tensor this shape as a reader of files would let it pass: with no more elements than there are data.
void Reshape(const std::vector<int64_t>& shape, TensorView& tensor) {
  tensor.shape = shape;
  int64_t elements = 1;
  for (const int64_t n : shape) {
    if (CheckedMultiply(elements, n, &elements) && elements <= static_cast<int64_t>(kZeros.size())) continue;
    tensor.shape[0] = 0;
    break;
  }
  tensor.strides.assign(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    if (!CheckedMultiply(tensor.strides[i], tensor.shape[i], &tensor.strides[i - 1])) tensor.strides[i - 1] = 0;
  }
}

std::map<std::string, TensorView> Tensors(const Shapes& shapes) {
  std::map<std::string, TensorView> tensors;
  for (const auto& [name, shape] : shapes) {
    TensorView& tensor = tensors[name];
    tensor.data = kZeros.data();
    Reshape(shape, tensor);
  }
  return tensors;
}

// Four bytes an edit: a tensor, what is done to it, an axis and a size.
void EditTensors(std::string_view edits, std::map<std::string, TensorView>& tensors) {
  constexpr int64_t kSizes[] = {
      0, 1, 2, 3, 4, 5, 12, 24, 36, 48, 10, 1 << 20, INT64_MAX, INT64_MAX / 2, INT64_MAX / 3, int64_t{1} << 31};
  for (; edits.size() >= 4 && !tensors.empty(); edits.remove_prefix(4)) {
    const auto byte = [&edits](size_t i) { return static_cast<uint8_t>(edits[i]); };
    const auto found = std::next(tensors.begin(), byte(0) % static_cast<int64_t>(tensors.size()));
    std::vector<int64_t> shape = found->second.shape;
    const size_t axis = shape.empty() ? 0 : byte(2) % shape.size();
    const int64_t size = kSizes[byte(3) % std::size(kSizes)];
    switch (byte(1) % 4) {
      case 0:
        tensors.erase(found);
        continue;
      case 1:
        if (!shape.empty()) shape[axis] = size;
        break;
      case 2:
        if (!shape.empty()) shape.erase(shape.begin() + static_cast<int64_t>(axis));
        break;
      case 3:
        if (shape.size() < 8) shape.insert(shape.begin() + static_cast<int64_t>(axis), size);
        break;
    }
    Reshape(shape, found->second);
  }
}

Shapes WithClassifier(Shapes shapes, int64_t classes) {
  shapes["classifier.weight"] = {classes, 12};
  shapes["classifier.bias"] = {classes};
  shapes["bert.pooler.dense.weight"] = {12, 12};
  shapes["bert.pooler.dense.bias"] = {12};
  return shapes;
}

const std::map<std::string, TensorView>& ModelTensors(size_t index) {
  using testing::TextShapes;
  using testing::VisionShapes;
  static const auto* const kModels = new std::vector<std::map<std::string, TensorView>>{
      Tensors(VisionShapes(Gates::kNone)),
      Tensors(VisionShapes(Gates::kDecay, /*order_s=*/true)),
      Tensors(VisionShapes(Gates::kSelective, /*order_s=*/false, /*positions=*/true)),
      Tensors(TextShapes(Gates::kNone)),
      Tensors(WithClassifier(TextShapes(Gates::kDecay), 1)),
      Tensors(WithClassifier(TextShapes(Gates::kSelective), 3)),
  };
  return (*kModels)[index % kModels->size()];
}

// The part up to the next separator, which is then gone.
std::string_view NextPart(std::string_view& text) {
  const size_t end = std::min(text.find('\x1e'), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// A document of this type; null without one.
nlohmann::json Parse(std::string_view text, nlohmann::json::value_t expected) {
  const auto json = ParseJson(text);
  fuzz::CheckRefusal(json.status(), absl::StatusCode::kInvalidArgument, "reading JSON");
  if (!json.ok()) return nullptr;
  // What the strict reader accepts means the same to the library's own.
  fuzz::Check(*json == nlohmann::json::parse(text), "JSON is read as it stands");
  return json->type() == expected ? *json : nullptr;
}

LoadOptions OptionsFrom(uint8_t byte) {
  LoadOptions options;
  options.allow_unused = (byte & 1) != 0;
  if ((byte & 2) != 0) options.heads = 3;
  if ((byte & 4) != 0) options.variant = static_cast<Variant>(byte >> 4 & 3);
  if ((byte & 8) != 0) options.pooling = static_cast<Pooling>((byte >> 5) % 6);
  if ((byte & 16) != 0) options.order = static_cast<PatchOrder>(byte >> 7);
  return options;
}

}  // namespace
}  // namespace lion

// The model's number, its options, then parts that the byte 0x1e separates: config.json, arguments, labels.txt, edits
// of the tensors, modules.json, 1_Pooling/config.json, sentence_bert_config.json.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  using Type = nlohmann::json::value_t;
  if (size < 2) return 0;
  std::string_view rest = fuzz::AsText(data + 2, size - 2);
  Checkpoint checkpoint;
  checkpoint.tensors = ModelTensors(data[0]);
  checkpoint.config = Parse(NextPart(rest), Type::object);
  checkpoint.arguments = Parse(NextPart(rest), Type::object);
  if (const std::string_view labels = NextPart(rest); !labels.empty()) {
    checkpoint.labels.emplace(1, std::string(labels));
    if (Utf8Prefix(labels) != labels.size()) checkpoint.labels.reset();
  }
  EditTensors(NextPart(rest), checkpoint.tensors);
  if (nlohmann::json modules = Parse(NextPart(rest), Type::array); !modules.is_null()) {
    checkpoint.sentence_folder.emplace();
    checkpoint.sentence_folder->modules = std::move(modules);
    checkpoint.sentence_folder->pooling = Parse(NextPart(rest), Type::object);
    checkpoint.sentence_folder->transformer = Parse(NextPart(rest), Type::object);
  }
  fuzz::ReadModel(checkpoint, OptionsFrom(data[1]));
  return 0;
}
