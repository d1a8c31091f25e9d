#include "tests/model_loader/test_files.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lion::testing {

TempFolder::TempFolder() {
  std::string name = ::testing::TempDir() + "/model_loader_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

std::string TempFolder::Write(const std::string& name, const std::string& content) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

namespace {

uint32_t Crc32(const std::string& data) {
  uint32_t crc = ~0u;
  for (const char byte : data) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

}  // namespace

std::string Zip(const std::vector<ZipEntry>& entries, bool zip64_end, const std::string& comment) {
  constexpr uint32_t kInZip64 = 0xffffffffu;
  std::string archive, directory;
  for (const ZipEntry& entry : entries) {
    const auto offset = static_cast<uint64_t>(archive.size());
    const auto size = static_cast<uint64_t>(entry.data.size());
    const auto name_size = static_cast<uint16_t>(entry.name.size());
    // The local header leaves the sizes to the directory, as torch.save does.
    archive += "PK\x03\x04" + Little<uint16_t>(20) + Little(entry.flags) + Little(entry.method) + Little<uint32_t>(0) +
               Little<uint32_t>(0) + Little<uint32_t>(0) + Little<uint32_t>(0) + Little(name_size) +
               Little<uint16_t>(0) + entry.name + entry.data;
    const uint32_t short_size = entry.zip64 ? kInZip64 : static_cast<uint32_t>(size);
    const uint32_t short_offset = entry.zip64 ? kInZip64 : static_cast<uint32_t>(offset);
    const std::string extra =
        entry.zip64 ? Little<uint16_t>(1) + Little<uint16_t>(24) + Little(size) + Little(size) + Little(offset) : "";
    directory += "PK\x01\x02" + Little<uint16_t>(20) + Little<uint16_t>(20) + Little(entry.flags) +
                 Little(entry.method) + Little<uint32_t>(0) + Little(entry.crc32.value_or(Crc32(entry.data))) +
                 Little(short_size) + Little(short_size) + Little(name_size) +
                 Little(static_cast<uint16_t>(extra.size())) + Little<uint16_t>(0) + Little<uint16_t>(0) +
                 Little<uint16_t>(0) + Little<uint32_t>(0) + Little(short_offset) + entry.name + extra;
  }
  const auto directory_offset = static_cast<uint64_t>(archive.size());
  archive += directory;
  const auto count = static_cast<uint64_t>(entries.size()), directory_size = static_cast<uint64_t>(directory.size());
  if (zip64_end) {
    const auto end_offset = static_cast<uint64_t>(archive.size());
    archive += "PK\x06\x06" + Little<uint64_t>(44) + Little<uint16_t>(45) + Little<uint16_t>(45) + Little<uint32_t>(0) +
               Little<uint32_t>(0) + Little(count) + Little(count) + Little(directory_size) + Little(directory_offset);
    archive += "PK\x06\x07" + Little<uint32_t>(0) + Little(end_offset) + Little<uint32_t>(1);
  }
  const auto short_count = static_cast<uint16_t>(zip64_end ? 0xffff : count);
  return archive + "PK\x05\x06" + Little<uint16_t>(0) + Little<uint16_t>(0) + Little(short_count) +
         Little(short_count) + Little(zip64_end ? kInZip64 : static_cast<uint32_t>(directory_size)) +
         Little(zip64_end ? kInZip64 : static_cast<uint32_t>(directory_offset)) +
         Little(static_cast<uint16_t>(comment.size())) + comment;
}

std::string Safetensors(const std::string& header, const std::string& data) {
  return Little(static_cast<uint64_t>(header.size())) + header + data;
}

namespace {

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  return count;
}

std::string CountUp(int64_t count, float first) {
  std::string data;
  for (int64_t i = 0; i < count; ++i) data += Little(first + static_cast<float>(i));
  return data;
}

std::string Join(const std::vector<int64_t>& numbers) {
  std::string text;
  for (int64_t n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

}  // namespace

std::string Safetensors(const Shapes& shapes, float first) {
  std::string header = "{", data;
  for (const auto& [name, shape] : shapes) {
    const size_t begin = data.size();
    data += CountUp(Elements(shape), first);
    header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"F32\",\"shape\":[" + Join(shape) +
              "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  return Safetensors(header + "}", data);
}

namespace pickle {

std::string Text(const std::string& text) { return "X" + Little(static_cast<uint32_t>(text.size())) + text; }
std::string Integer(int32_t value) { return "J" + Little(value); }
std::string Boolean(bool value) { return value ? "\x88" : "\x89"; }

std::string Tuple(const std::vector<std::string>& items) {
  std::string all = "(";
  for (const std::string& item : items) all += item;
  return all + "t";
}

namespace {

std::string Items(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string all = "(";
  for (const auto& [key, value] : items) all += Text(key) + value;
  return all + "u";
}

}  // namespace

std::string Dict(const std::vector<std::pair<std::string, std::string>>& items) { return "}" + Items(items); }

std::string Global(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }

std::string Call(const std::string& callable, const std::vector<std::string>& arguments) {
  return callable + Tuple(arguments) + "R";
}

std::string Build(const std::string& object, const std::string& state) { return object + state + "b"; }

std::string OrderedDict(const std::vector<std::pair<std::string, std::string>>& items) {
  return Call(Global("collections", "OrderedDict"), {}) + Items(items);
}

std::string Namespace(const std::vector<std::pair<std::string, std::string>>& values) {
  return Build(Global("argparse", "Namespace") + ")\x81", Dict(values));
}

std::string Storage(const std::string& type, const std::string& key, int32_t elements) {
  return Tuple({Text("storage"), Global("torch", type), Text(key), Text("cpu"), Integer(elements)}) + "Q";
}

std::string Tensor(const std::string& storage, int32_t offset, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& strides) {
  const auto tuple = [](const std::vector<int64_t>& numbers) {
    std::vector<std::string> items;
    for (int64_t n : numbers) items.push_back("\x8a\x08" + Little(n));  // LONG1
    return Tuple(items);
  };
  return Call(Global("torch._utils", "_rebuild_tensor_v2"),
              {storage, Integer(offset), tuple(shape), tuple(strides), Boolean(false), OrderedDict({})});
}

std::string Finish(const std::string& value) { return "\x80\x02" + value + "."; }

}  // namespace pickle

std::string TorchArchive(const std::string& value, const std::map<std::string, std::string>& storages,
                         const std::vector<ZipEntry>& more) {
  std::vector<ZipEntry> entries = {{"archive/data.pkl", pickle::Finish(value)}};
  for (const auto& [key, data] : storages) entries.push_back({"archive/data/" + key, data});
  entries.push_back({"archive/version", "3\n"});
  entries.insert(entries.end(), more.begin(), more.end());
  return Zip(entries);
}

std::string TorchStateDict(const Shapes& shapes, const std::string& prefix, float first,
                           std::map<std::string, std::string>& storages) {
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& [name, shape] : shapes) {
    const std::string key = std::to_string(storages.size());
    const int64_t count = Elements(shape);
    storages[key] = CountUp(count, first);
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    items.emplace_back(prefix + name, pickle::Tensor(pickle::Storage("FloatStorage", key, static_cast<int32_t>(count)),
                                                     0, shape, strides));
  }
  return pickle::OrderedDict(items);
}

Shapes VisionShapes(Gates gates, bool order_s, bool positions, int64_t heads) {
  Shapes shapes = {{"patch_embed.proj.weight", {12, 3, 4, 4}},
                   {"patch_embed.proj.bias", {12}},
                   {"cls_token", {1, 1, 12}},
                   {"norm.weight", {12}},
                   {"norm.bias", {12}},
                   {"head.weight", {5, 12}},
                   {"head.bias", {5}}};
  if (positions) shapes["pos_embed"] = {1, 10, 12};
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    for (const char* norm : {"norm1", "norm2"}) {
      shapes[block + norm + ".weight"] = {12};
      shapes[block + norm + ".bias"] = {12};
    }
    shapes[block + "attn.qkv.weight"] = {36, 12};
    shapes[block + "attn.qkv.bias"] = {36};
    shapes[block + "attn.proj.weight"] = {12, 12};
    shapes[block + "attn.proj.bias"] = {12};
    shapes[block + "mlp.fc1.weight"] = {48, 12};
    shapes[block + "mlp.fc1.bias"] = {48};
    shapes[block + "mlp.fc2.weight"] = {12, 48};
    shapes[block + "mlp.fc2.bias"] = {12};
    for (const std::string gate : {"attn.a_i", "attn.a2_i"}) {
      if (gate == "attn.a2_i" && !order_s) continue;
      if (gates == Gates::kDecay) shapes[block + gate] = {heads};
      if (gates == Gates::kSelective) {
        shapes[block + gate + ".weight"] = {heads, 12};
        shapes[block + gate + ".bias"] = {heads};
      }
    }
  }
  return shapes;
}

Shapes TextShapes(Gates gates) {
  Shapes shapes = {{"bert.embeddings.word_embeddings.weight", {16, 12}},
                   {"bert.embeddings.position_embeddings.weight", {8, 12}},
                   {"bert.embeddings.token_type_embeddings.weight", {2, 12}},
                   {"bert.embeddings.LayerNorm.weight", {12}},
                   {"bert.embeddings.LayerNorm.bias", {12}},
                   {"cls.predictions.transform.dense.weight", {12, 12}},
                   {"cls.predictions.transform.dense.bias", {12}},
                   {"cls.predictions.transform.LayerNorm.weight", {12}},
                   {"cls.predictions.transform.LayerNorm.bias", {12}},
                   {"cls.predictions.bias", {16}}};
  for (const std::string layer : {"bert.encoder.layer.0.", "bert.encoder.layer.1."}) {
    for (const char* part :
         {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"}) {
      shapes[layer + part + ".weight"] = {12, 12};
      shapes[layer + part + ".bias"] = {12};
    }
    for (const char* part : {"attention.output.LayerNorm", "output.LayerNorm"}) {
      shapes[layer + part + ".weight"] = {12};
      shapes[layer + part + ".bias"] = {12};
    }
    shapes[layer + "intermediate.dense.weight"] = {24, 12};
    shapes[layer + "intermediate.dense.bias"] = {24};
    shapes[layer + "output.dense.weight"] = {12, 24};
    shapes[layer + "output.dense.bias"] = {12};
    if (gates == Gates::kDecay) shapes[layer + "attention.self.ai"] = {3};
    if (gates == Gates::kSelective) {
      shapes[layer + "attention.self.Wa_i.weight"] = {3, 12};
      shapes[layer + "attention.self.Wa_i.bias"] = {3};
    }
  }
  return shapes;
}

std::string LoadError(const std::string& path, const LoadOptions& options) {
  const auto model = LoadModel(path, options);
  EXPECT_FALSE(model.ok()) << path << " was loaded";
  return model.ok() ? "" : std::string(model.status().message());
}

}  // namespace lion::testing
