#include "model_loader/safetensors.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "model_loader/json.h"

namespace lion {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::optional<TensorType> ParseType(const std::string& name) {
  static constexpr std::pair<std::string_view, TensorType> kTypes[] = {
      {"F64", TensorType::kFloat64},   {"F32", TensorType::kFloat32}, {"F16", TensorType::kFloat16},
      {"BF16", TensorType::kBFloat16}, {"I64", TensorType::kInt64},   {"I32", TensorType::kInt32},
      {"I16", TensorType::kInt16},     {"I8", TensorType::kInt8},     {"U8", TensorType::kUint8},
      {"BOOL", TensorType::kBool},
  };
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  return std::nullopt;
}

struct Region {
  uint64_t begin, end;
  std::string name;
};

absl::Status CheckMetadata(const json& metadata) {
  if (!metadata.is_object()) return InvalidFile("safetensors: __metadata__ is not a map of strings");
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) return InvalidFile("safetensors: __metadata__ \"", key, "\" is not a string");
  }
  return absl::OkStatus();
}

// Non-negative integers of at most 63 bits.
absl::StatusOr<std::vector<int64_t>> ReadIntegers(const std::string& name, const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array())
    return InvalidFile("safetensors: tensor ", name, ": ", key, " is no array");
  std::vector<int64_t> numbers;
  for (const json& number : *found) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX) {
      return InvalidFile("safetensors: tensor ", name, ": ", key,
                         " holds something else than integers from 0 to 2^63 - 1");
    }
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

absl::StatusOr<TensorView> ReadEntry(const std::string& name, const json& entry, Bytes data, Region& region) {
  if (!entry.is_object()) return InvalidFile("safetensors: tensor ", name, ": its entry is no object");
  const auto type_name = entry.find("dtype");
  if (type_name == entry.end() || !type_name->is_string()) {
    return InvalidFile("safetensors: tensor ", name, ": dtype is no string");
  }
  const auto type = ParseType(type_name->get<std::string>());
  if (!type) {
    return InvalidFile("safetensors: tensor ", name, ": unknown dtype ", type_name->get<std::string>(),
                       ", expected F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL");
  }
  auto shape = ReadIntegers(name, entry, "shape");
  if (!shape.ok()) return shape.status();
  const auto offsets = ReadIntegers(name, entry, "data_offsets");
  if (!offsets.ok()) return offsets.status();
  if (offsets->size() != 2) {
    return InvalidFile("safetensors: tensor ", name, ": data_offsets has ", offsets->size(), " numbers, expected 2");
  }
  const int64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (end < begin)
    return InvalidFile("safetensors: tensor ", name, ": data_offsets end ", end, " before they begin ", begin);
  int64_t bytes = TensorTypeSize(*type);
  for (int64_t n : *shape) {
    if (!CheckedMultiply(bytes, n, &bytes))
      return InvalidFile("safetensors: tensor ", name, ": its size overflows 63 bits");
  }
  if (bytes != end - begin) {
    return InvalidFile("safetensors: tensor ", name, ": its shape and dtype need ", bytes,
                       " bytes, its data_offsets give ", end - begin);
  }
  if (static_cast<uint64_t>(end) > data.size()) {
    return InvalidFile("safetensors: tensor ", name, ": its data ends at ", end, ", but the file holds ", data.size(),
                       " bytes of data (a truncated file?)");
  }
  region = {static_cast<uint64_t>(begin), static_cast<uint64_t>(end), name};
  std::vector<int64_t> strides(shape->size(), 1);
  for (size_t i = strides.size(); i-- > 1;) {
    // An empty tensor may have other dimensions of any size.
    if (!CheckedMultiply(strides[i], (*shape)[i], &strides[i - 1])) strides[i - 1] = 0;
  }
  return TensorView{*type, std::move(*shape), std::move(strides), data.data() + begin};
}

absl::Status CheckRegions(std::vector<Region>& regions, uint64_t data_size) {
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t end = 0;
  for (const Region& region : regions) {
    if (region.begin > end) {
      return InvalidFile("safetensors: tensor ", region.name, ": a hole of ", region.begin - end,
                         " bytes lies before it");
    }
    if (region.begin < end) {
      return InvalidFile("safetensors: tensor ", region.name, ": it overlaps the tensor before it by ",
                         end - region.begin, " bytes");
    }
    end = region.end;
  }
  if (end != data_size) {
    return InvalidFile("safetensors: ", data_size - end, " bytes follow the last tensor's data");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsSafetensors(Bytes bytes) { return bytes.size() > kLengthBytes && bytes[kLengthBytes] == '{'; }

absl::StatusOr<std::map<std::string, TensorView>> ReadSafetensors(Bytes bytes) {
  if (bytes.size() < kLengthBytes) {
    return InvalidFile("safetensors: the file has ", bytes.size(), " bytes, too few for the header's length");
  }
  const uint64_t header_size = ReadLittleEndian<uint64_t>(bytes.data());
  if (header_size > kMaxHeaderBytes) {
    return InvalidFile("safetensors: the header claims ", header_size, " bytes, at most ", kMaxHeaderBytes,
                       " are allowed");
  }
  if (header_size > bytes.size() - kLengthBytes) {
    return InvalidFile("safetensors: the header of ", header_size, " bytes reaches out of the file of ", bytes.size());
  }
  const auto header = ParseJson(AsText(bytes.subspan(kLengthBytes, header_size)));
  if (!header.ok()) return InvalidFile("safetensors: the header: ", header.status().message());
  if (!header->is_object()) return InvalidFile("safetensors: the header is no JSON object");
  const Bytes data = bytes.subspan(kLengthBytes + header_size);
  std::map<std::string, TensorView> tensors;
  std::vector<Region> regions;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") {
      if (auto status = CheckMetadata(entry); !status.ok()) return status;
      continue;
    }
    auto tensor = ReadEntry(name, entry, data, regions.emplace_back());
    if (!tensor.ok()) return tensor.status();
    tensors.emplace(name, std::move(*tensor));
  }
  if (auto status = CheckRegions(regions, data.size()); !status.ok()) return status;
  return tensors;
}

}  // namespace lion
