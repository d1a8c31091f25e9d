#include "tests/support/golden.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lion::testing {
namespace {

template <typename T>
void Append(const char* data, int64_t count, std::vector<double>& values) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    values.push_back(static_cast<double>(value));
  }
}

}  // namespace

std::string SourcePath(const std::string& relative) { return std::string(LION_SOURCE_DIR) + "/" + relative; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << "cannot read " << path << " (goldens: see tests/golden/README.md)\n";
    std::abort();
  }
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

std::map<std::string, GoldenTensor> ReadGolden(const std::string& relative) {
  const std::string file = ReadFile(SourcePath(relative));
  uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), 8);
  const auto header = nlohmann::json::parse(file.substr(8, header_size));
  std::map<std::string, GoldenTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    GoldenTensor tensor;
    tensor.shape = entry["shape"].get<std::vector<int64_t>>();
    int64_t count = 1;
    for (int64_t n : tensor.shape) count *= n;
    tensor.values.reserve(count);
    const char* data = file.data() + 8 + header_size + entry["data_offsets"][0].get<int64_t>();
    const std::string type = entry["dtype"];
    if (type == "F32") {
      Append<float>(data, count, tensor.values);
    } else if (type == "F64") {
      Append<double>(data, count, tensor.values);
    } else if (type == "U8") {
      Append<uint8_t>(data, count, tensor.values);
    } else if (type == "I64") {
      Append<int64_t>(data, count, tensor.values);
    } else {
      std::cerr << relative << ": tensor " << name << " has type " << type << ", which golden files do not use\n";
      std::abort();
    }
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace lion::testing
