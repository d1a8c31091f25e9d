#include "model_loader/torch_tensor.h"

#include <optional>
#include <utility>

namespace lion {
namespace {

using Kind = PickleValue::Kind;

// A rebuild may be wrapped in another: parameter in subclass in tensor. Deeper is no checkpoint.
constexpr int kMaxWrappers = 4;
constexpr size_t kMaxRank = 16;

struct Storage {
  TensorType type;
  Bytes data;
  int64_t elements;
};

std::optional<TensorType> StorageType(const PickleValue& global) {
  static constexpr std::pair<std::string_view, TensorType> kTypes[] = {
      {"DoubleStorage", TensorType::kFloat64}, {"FloatStorage", TensorType::kFloat32},
      {"HalfStorage", TensorType::kFloat16},   {"BFloat16Storage", TensorType::kBFloat16},
      {"LongStorage", TensorType::kInt64},     {"IntStorage", TensorType::kInt32},
      {"ShortStorage", TensorType::kInt16},    {"CharStorage", TensorType::kInt8},
      {"ByteStorage", TensorType::kUint8},     {"BoolStorage", TensorType::kBool},
  };
  for (const auto& [name, type] : kTypes) {
    if (global.IsGlobal("torch", name) || global.IsGlobal("torch.cuda", name)) return type;
  }
  return std::nullopt;
}

absl::StatusOr<Storage> ReadStorage(const PickleValue& value, TorchStorages& storages) {
  // ('storage', type, key, device, number of elements)
  const PickleValue* id = value.Is(Kind::kPersistent) ? value.items[0] : nullptr;
  if (id == nullptr || !id->Is(Kind::kTuple) || id->items.size() < 5 || !id->items[0]->Is(Kind::kString) ||
      id->items[0]->text != "storage") {
    return InvalidFile("its storage is ", Describe(value), ", not a persistent id of a storage");
  }
  const auto type = StorageType(*id->items[1]);
  if (!type) return InvalidFile("its storage type is ", Describe(*id->items[1]), ", which is not known");
  const PickleValue &key = *id->items[2], &count = *id->items[4];
  if (!key.Is(Kind::kString) || !count.Is(Kind::kInteger)) return InvalidFile("its storage's id is malformed");
  const std::string name = Concat(storages.root, "data/", key.text);
  const auto data = storages.zip->Find(name);
  if (!data.ok()) return data.status();
  int64_t bytes = 0;
  if (count.integer < 0 || !CheckedMultiply(count.integer, TensorTypeSize(*type), &bytes)) {
    return InvalidFile("its storage claims ", count.integer, " elements of ", TensorTypeName(*type));
  }
  if (static_cast<uint64_t>(bytes) != data->size()) {
    return InvalidFile("its storage claims ", count.integer, " elements of ", TensorTypeName(*type), ", ", bytes,
                       " bytes, but entry ", name, " has ", data->size(), " bytes");
  }
  if (!storages.checked.contains(name)) {
    if (auto status = storages.zip->CheckCrc32(name); !status.ok()) return status;
    storages.checked.insert(name);
  }
  return Storage{*type, *data, count.integer};
}

absl::StatusOr<std::vector<int64_t>> ReadIntegers(const PickleValue* value, const char* what) {
  // torch.Size is a tuple with a name.
  if (value->Is(Kind::kObject) && value->items[0]->IsGlobal("torch", "Size") && value->items[1]->items.size() == 1) {
    value = value->items[1]->items[0];
  }
  if (!value->Is(Kind::kTuple) || value->items.size() > kMaxRank) {
    return InvalidFile("its ", what, " is ", Describe(*value), ", expected a tuple of at most ", kMaxRank);
  }
  std::vector<int64_t> numbers;
  for (const PickleValue* item : value->items) {
    if (!item->Is(Kind::kInteger)) return InvalidFile("its ", what, " holds ", Describe(*item));
    if (item->integer < 0) return InvalidFile("its ", what, " holds the negative number ", item->integer);
    numbers.push_back(item->integer);
  }
  return numbers;
}

// (storage, offset, shape, strides, ...)
absl::StatusOr<TensorView> Rebuild(const std::vector<const PickleValue*>& arguments, TorchStorages& storages) {
  if (arguments.size() < 4)
    return InvalidFile("it is rebuilt from ", arguments.size(), " arguments, expected 4 or more");
  auto storage = ReadStorage(*arguments[0], storages);
  if (!storage.ok()) return storage.status();
  if (!arguments[1]->Is(Kind::kInteger) || arguments[1]->integer < 0) {
    return InvalidFile("its offset is ", Describe(*arguments[1]));
  }
  auto shape = ReadIntegers(arguments[2], "shape");
  if (!shape.ok()) return shape.status();
  auto strides = ReadIntegers(arguments[3], "strides");
  if (!strides.ok()) return strides.status();
  if (shape->size() != strides->size()) {
    return InvalidFile("its shape has ", shape->size(), " dimensions and its strides ", strides->size());
  }
  int64_t elements = 1, last = arguments[1]->integer;
  bool fits = true, empty = false;
  for (size_t i = 0; i < shape->size(); ++i) {
    int64_t reach = 0;
    empty |= (*shape)[i] == 0;
    fits &= CheckedMultiply(elements, (*shape)[i], &elements);
    if (empty) continue;
    fits = fits && CheckedMultiply((*shape)[i] - 1, (*strides)[i], &reach) && CheckedAdd(last, reach, &last);
  }
  if (!fits || (!empty && last >= storage->elements) || elements > storage->elements ||
      arguments[1]->integer > storage->elements) {
    return InvalidFile("its shape, strides and offset ", arguments[1]->integer, " reach out of its storage of ",
                       storage->elements, " elements");
  }
  const void* data = storage->data.data() + arguments[1]->integer * TensorTypeSize(storage->type);
  return TensorView{storage->type, std::move(*shape), std::move(*strides), data};
}

bool IsRebuildTensor(const PickleValue& callable) {
  return callable.IsGlobal("torch._utils", "_rebuild_tensor_v2") ||
         callable.IsGlobal("torch._utils", "_rebuild_tensor");
}

bool IsRebuildParameter(const PickleValue& callable) {
  return callable.IsGlobal("torch._utils", "_rebuild_parameter") ||
         callable.IsGlobal("torch._utils", "_rebuild_parameter_with_state");
}

}  // namespace

bool LooksLikeTensor(const PickleValue& value) {
  if (!value.Is(Kind::kObject) || !value.items[0]->Is(Kind::kGlobal)) return false;
  const PickleValue& callable = *value.items[0];
  return callable.module.substr(0, 5) == "torch" && callable.text.substr(0, 9) == "_rebuild_";
}

absl::StatusOr<TensorView> ReadTorchTensor(const PickleValue& value, TorchStorages& storages) {
  const PickleValue* current = &value;
  for (int depth = 0; depth < kMaxWrappers; ++depth) {
    if (!current->Is(Kind::kObject)) return InvalidFile("it is ", Describe(*current), ", not a tensor");
    const PickleValue* callable = current->items[0];
    const PickleValue* arguments = current->items[1];
    if (callable->IsGlobal("torch._tensor", "_rebuild_from_type_v2")) {
      // (function, type, the function's arguments, state): a tensor with attributes of its own.
      if (arguments->items.size() < 3 || !arguments->items[2]->Is(Kind::kTuple)) return InvalidFile("it is malformed");
      callable = arguments->items[0];
      arguments = arguments->items[2];
    }
    if (IsRebuildTensor(*callable)) return Rebuild(arguments->items, storages);
    if (!IsRebuildParameter(*callable) || arguments->items.empty()) {
      return InvalidFile("it needs the global ", Describe(*callable),
                         ", which is not one of the known ways to make a tensor; nothing is imported to find out");
    }
    current = arguments->items[0];
  }
  return InvalidFile("it is wrapped too often");
}

}  // namespace lion
