#include "server/rpc/inference/tensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/utf8.h"

namespace lion {
namespace {

static_assert(std::endian::native == std::endian::little, "raw tensors are little-endian, and used as they are");

using inference::InferTensorContents;
using InferInput = inference::ModelInferRequest::InferInputTensor;

constexpr size_t kShownBytes = 100;  // of a stranger's name
constexpr size_t kShownExtents = 8;  // of a stranger's shape
constexpr int64_t kLengthBytes = 4;  // before each element of BYTES

// Where contents of a datatype are; null: only raw.
using CountOfContents = int (InferTensorContents::*)() const;
struct Datatype {
  std::string_view name;
  int64_t bytes;  // of an element; 0: BYTES
  CountOfContents contents;
  const char* field;  // of the contents
};
constexpr Datatype kDatatypes[] = {
    {"BOOL", 1, &InferTensorContents::bool_contents_size, "bool_contents"},
    {"UINT8", 1, &InferTensorContents::uint_contents_size, "uint_contents"},
    {"UINT16", 2, &InferTensorContents::uint_contents_size, "uint_contents"},
    {"UINT32", 4, &InferTensorContents::uint_contents_size, "uint_contents"},
    {"UINT64", 8, &InferTensorContents::uint64_contents_size, "uint64_contents"},
    {"INT8", 1, &InferTensorContents::int_contents_size, "int_contents"},
    {"INT16", 2, &InferTensorContents::int_contents_size, "int_contents"},
    {"INT32", 4, &InferTensorContents::int_contents_size, "int_contents"},
    {"INT64", 8, &InferTensorContents::int64_contents_size, "int64_contents"},
    {"FP16", 2, nullptr, nullptr},
    {"FP32", 4, &InferTensorContents::fp32_contents_size, "fp32_contents"},
    {"FP64", 8, &InferTensorContents::fp64_contents_size, "fp64_contents"},
    {"BYTES", 0, &InferTensorContents::bytes_contents_size, "bytes_contents"},
    {"BF16", 2, nullptr, nullptr},
};

const Datatype* FindDatatype(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kDatatypes), std::end(kDatatypes),
                                         [name](const Datatype& type) { return type.name == name; });
  return found == std::end(kDatatypes) ? nullptr : found;
}

std::string NamesOfDatatypes() {
  return absl::StrJoin(kDatatypes, ", ", [](std::string* out, const Datatype& type) {
    absl::StrAppend(out, absl::string_view(type.name.data(), type.name.size()));
  });
}

int64_t AllContents(const InferTensorContents& contents) {
  int64_t sum = 0;
  for (const CountOfContents count :
       {&InferTensorContents::bool_contents_size, &InferTensorContents::int_contents_size,
        &InferTensorContents::int64_contents_size, &InferTensorContents::uint_contents_size,
        &InferTensorContents::uint64_contents_size, &InferTensorContents::fp32_contents_size,
        &InferTensorContents::fp64_contents_size, &InferTensorContents::bytes_contents_size}) {
    sum += (contents.*count)();
  }
  return sum;
}

absl::StatusOr<int64_t> CountElements(const InferInput& input) {
  const std::span<const int64_t> shape = {input.shape().data(), static_cast<size_t>(input.shape_size())};
  if (shape.empty()) return OfTensor(input.name(), "the shape is [], want at least the batch");
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent < 1) {
      return OfTensor(input.name(), absl::StrCat("the shape is ", ShapeText(shape), ", want extents of at least 1"));
    }
    if (__builtin_mul_overflow(elements, extent, &elements)) {
      return OfTensor(input.name(),
                      absl::StrCat("the shape ", ShapeText(shape), " has more elements than there can be"));
    }
  }
  return elements;
}

absl::Status CheckRaw(const InferInput& input, const Datatype& type, int64_t elements, const std::string& raw) {
  const auto got = static_cast<int64_t>(raw.size());
  const std::string shape = ShapeText({input.shape().data(), static_cast<size_t>(input.shape_size())});
  if (type.bytes == 0) {
    if (elements <= got / kLengthBytes) return absl::OkStatus();
    return OfTensor(input.name(), absl::StrCat("got ", got, " raw bytes, want at least ", kLengthBytes,
                                               " for the length of each element of BYTES ", shape));
  }
  // Divided, because a product may overflow.
  if (got % type.bytes == 0 && got / type.bytes == elements) return absl::OkStatus();
  int64_t expected = 0;
  const bool overflows = __builtin_mul_overflow(elements, type.bytes, &expected);
  return OfTensor(input.name(), absl::StrCat("got ", got, " raw bytes, want ",
                                             overflows ? "more than there can be" : absl::StrCat(expected), " for ",
                                             input.datatype(), " ", shape));
}

absl::Status CheckContents(const InferInput& input, const Datatype& type, int64_t elements) {
  const std::string shape = ShapeText({input.shape().data(), static_cast<size_t>(input.shape_size())});
  if (type.contents == nullptr) {
    return OfTensor(input.name(), absl::StrCat(input.datatype(), " has no contents: want raw_input_contents"));
  }
  const int64_t all = AllContents(input.contents());
  const int64_t got = (input.contents().*type.contents)();
  if (got == elements && all == got) return absl::OkStatus();
  return OfTensor(input.name(),
                  absl::StrCat("got ", got, " elements in contents.", type.field, " and ", all - got,
                               " in others, want ", elements, " there for ", input.datatype(), " ", shape));
}

absl::Status CheckForm(const inference::ModelInferRequest& request) {
  const int raw = request.raw_input_contents_size();
  if (raw == 0) return absl::OkStatus();
  for (const InferInput& input : request.inputs()) {
    if (input.has_contents() && AllContents(input.contents()) > 0) {
      return OfTensor(input.name(), "got contents beside raw_input_contents: want one of the two for all inputs");
    }
  }
  if (raw == request.inputs_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("got ", raw, " raw_input_contents for ", request.inputs_size(),
                                                 " inputs: want one for each, or none"));
}

absl::StatusOr<std::string_view> TakeElement(const InputTensor& tensor, size_t index, std::string_view* rest) {
  uint32_t length = 0;
  if (rest->size() < sizeof(length)) {
    return OfTensor(tensor.name(), absl::StrCat("element ", index, ": ", rest->size(), " raw bytes are left, want ",
                                                kLengthBytes, " for its length"));
  }
  std::memcpy(&length, rest->data(), sizeof(length));
  rest->remove_prefix(sizeof(length));
  if (length > rest->size()) {
    return OfTensor(tensor.name(), absl::StrCat("element ", index, ": its length is ", length, ", but ", rest->size(),
                                                " raw bytes are left"));
  }
  const std::string_view element = rest->substr(0, length);
  rest->remove_prefix(length);
  return element;
}

}  // namespace

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < std::min(shape.size(), kShownExtents); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", shape[i]);
  }
  if (shape.size() > kShownExtents) absl::StrAppend(&text, ", ... of ", shape.size());
  return text + "]";
}

absl::Status OfTensor(std::string_view name, std::string_view wrong) {
  return absl::InvalidArgumentError(
      absl::StrCat("input '", CutUtf8(name, kShownBytes), "': ", absl::string_view(wrong.data(), wrong.size())));
}

absl::StatusOr<std::vector<InputTensor>> ReadTensors(const inference::ModelInferRequest& request) {
  if (absl::Status status = CheckForm(request); !status.ok()) return status;
  std::set<std::string_view> names;
  std::vector<InputTensor> tensors;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const InferInput& input = request.inputs(i);
    if (!names.insert(input.name()).second) return OfTensor(input.name(), "there are two of that name, want one");
    const Datatype* const type = FindDatatype(input.datatype());
    if (type == nullptr) {
      return OfTensor(input.name(), absl::StrCat("the datatype is '", CutUtf8(input.datatype(), kShownBytes),
                                                 "', want ", NamesOfDatatypes()));
    }
    absl::StatusOr<int64_t> elements = CountElements(input);
    if (!elements.ok()) return elements.status();
    InputTensor tensor = {.header = &input, .elements = *elements};
    if (request.raw_input_contents_size() > 0) tensor.raw = &request.raw_input_contents(i);
    absl::Status fits =
        tensor.raw != nullptr ? CheckRaw(input, *type, *elements, *tensor.raw) : CheckContents(input, *type, *elements);
    if (!fits.ok()) return fits;
    tensors.push_back(tensor);
  }
  return tensors;
}

absl::StatusOr<std::vector<std::string_view>> ReadBytes(const InputTensor& tensor) {
  std::vector<std::string_view> elements;
  elements.reserve(static_cast<size_t>(tensor.elements));
  if (tensor.raw == nullptr) {
    for (const std::string& element : tensor.header->contents().bytes_contents()) elements.emplace_back(element);
    return elements;
  }
  std::string_view rest = *tensor.raw;
  for (size_t i = 0; i < static_cast<size_t>(tensor.elements); ++i) {
    absl::StatusOr<std::string_view> element = TakeElement(tensor, i, &rest);
    if (!element.ok()) return element.status();
    elements.push_back(*element);
  }
  if (rest.empty()) return elements;
  return OfTensor(tensor.name(),
                  absl::StrCat(rest.size(), " raw bytes are left after the last of ", tensor.elements, " elements"));
}

std::span<const int64_t> ReadInt64(const InputTensor& tensor) {
  const void* const data = tensor.raw == nullptr ? tensor.header->contents().int64_contents().data()
                                                 : static_cast<const void*>(tensor.raw->data());
  return {static_cast<const int64_t*>(data), static_cast<size_t>(tensor.elements)};
}

absl::StatusOr<const void*> ReadPixels(const InputTensor& tensor, std::vector<uint8_t>* narrowed) {
  if (tensor.raw != nullptr) return tensor.raw->data();
  const InferTensorContents& contents = tensor.header->contents();
  if (tensor.datatype() == "FP32") return contents.fp32_contents().data();
  narrowed->reserve(static_cast<size_t>(tensor.elements));
  for (const uint32_t value : contents.uint_contents()) {
    if (value > 255) {
      return OfTensor(tensor.name(), absl::StrCat("element ", narrowed->size(), " is ", value, ", want 0 to 255"));
    }
    narrowed->push_back(static_cast<uint8_t>(value));
  }
  return narrowed->data();
}

}  // namespace lion
