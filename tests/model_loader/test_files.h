// Builds checkpoint files byte by byte, without help from the code under test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model_loader/bytes.h"
#include "model_loader/model_loader.h"

namespace lion::testing {

// View of a text's bytes; the text must outlive it.
inline Bytes AsBytes(const std::string& text) {
  return Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// The value's bytes, the lowest first.
template <typename T>
std::string Little(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}

// A fresh folder, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& content) const;  // returns the file's path

 private:
  std::string path_;
};

// --- zip

struct ZipEntry {
  std::string name;
  std::string data;
  bool zip64 = false;                            // sizes and offset in a zip64 field
  uint16_t method = 0;                           // 8: says it is deflated
  uint16_t flags = 0x808;                        // as torch.save: UTF-8 name, sizes after the data
  std::optional<uint32_t> crc32 = std::nullopt;  // unset: the right one
};
std::string Zip(const std::vector<ZipEntry>& entries, bool zip64_end = false, const std::string& comment = "");

// --- safetensors

std::string Safetensors(const std::string& header, const std::string& data);

// Float32 tensors of these shapes; the elements of each count up from `first`.
using Shapes = std::map<std::string, std::vector<int64_t>>;
std::string Safetensors(const Shapes& shapes, float first = 0.0f);

// --- pickle (protocol 2): each returns the opcodes that push one value

namespace pickle {

std::string Text(const std::string& text);
std::string Integer(int32_t value);
std::string Boolean(bool value);
std::string Tuple(const std::vector<std::string>& items);
std::string Dict(const std::vector<std::pair<std::string, std::string>>& items);  // text keys
std::string Global(const std::string& module, const std::string& name);
std::string Call(const std::string& callable, const std::vector<std::string>& arguments);
std::string Build(const std::string& object, const std::string& state);
std::string OrderedDict(const std::vector<std::pair<std::string, std::string>>& items);
std::string Namespace(const std::vector<std::pair<std::string, std::string>>& values);
std::string Storage(const std::string& type, const std::string& key, int32_t elements);
// _rebuild_tensor_v2 of a storage.
std::string Tensor(const std::string& storage, int32_t offset, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& strides);
std::string Finish(const std::string& value);  // PROTO 2 ... STOP

}  // namespace pickle

// torch.save's archive: the pickled value and the storages by key.
std::string TorchArchive(const std::string& value, const std::map<std::string, std::string>& storages,
                         const std::vector<ZipEntry>& more = {});

// Writes a model's tensors as torch.save would, adding them to `storages`; a dict of name to tensor.
std::string TorchStateDict(const Shapes& shapes, const std::string& prefix, float first,
                           std::map<std::string, std::string>& storages);

// --- models

enum class Gates { kNone, kDecay, kSelective };

// The tensors of a vision encoder: D 12, `heads` heads, 2 blocks, patches of 4, 5 classes.
Shapes VisionShapes(Gates gates, bool order_s = false, bool positions = false, int64_t heads = 3);
// The tensors of a text encoder: D 12, 3 heads, 2 layers, vocabulary 16, 8 positions, 2 types, masked LM head.
Shapes TextShapes(Gates gates);

// LoadModel's error; fails where there is none.
std::string LoadError(const std::string& path, const LoadOptions& options = {});

}  // namespace lion::testing
