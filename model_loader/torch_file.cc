#include "model_loader/torch_file.h"

#include <utility>

#include "model_loader/pickle.h"
#include "model_loader/torch_tensor.h"
#include "model_loader/zip_reader.h"

namespace lion {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxPickleBytes = size_t{256} << 20;

bool StartsWith(Bytes bytes, std::string_view start) { return AsText(bytes).substr(0, start.size()) == start; }

// A tar archive says so at byte 257.
bool IsTar(Bytes bytes) { return bytes.size() > 512 && AsText(bytes).substr(257, 5) == "ustar"; }

absl::Status RefuseOldFormat(const char* what) {
  return InvalidFile(what,
                     "; only the zip format is read: re-save it with PyTorch 1.6 or later, "
                     "torch.save(torch.load(path, map_location=\"cpu\"), path)");
}

absl::Status CheckFormat(Bytes bytes) {
  // A pickled long, 0x1950a86a20f9469cfc6c.
  constexpr std::string_view kLegacyMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  if (AsText(bytes.subspan(0, 64)).find(kLegacyMagic) != std::string_view::npos) {
    return RefuseOldFormat("this is the format that torch.save wrote before PyTorch 1.6 (no zip archive)");
  }
  if (IsTar(bytes)) return RefuseOldFormat("this is a tar archive, the format of torch.save in PyTorch 0.1");
  if (StartsWith(bytes, "\x80")) return RefuseOldFormat("this is a bare pickle, not a torch.save archive");
  return absl::OkStatus();
}

// The folder inside the archive that holds data.pkl, with its slash.
absl::StatusOr<std::string> FindRoot(const ZipReader& zip) {
  constexpr std::string_view kName = "data.pkl";
  std::string root;
  int found = 0;
  for (const auto& [name, entry] : zip.entries()) {
    if (!std::string_view(name).ends_with(kName)) continue;
    const std::string folder = name.substr(0, name.size() - kName.size());
    if (!folder.empty() && folder.find('/') != folder.size() - 1) continue;
    root = folder;
    ++found;
  }
  if (found != 1)
    return InvalidFile("the archive holds ", found, " entries FOLDER/data.pkl, expected 1 as torch.save writes");
  if (zip.Has(root + "constants.pkl")) {
    return InvalidFile("this is a TorchScript archive; save the model's state_dict() with torch.save instead");
  }
  return root;
}

absl::Status CheckByteOrder(const ZipReader& zip, const std::string& root) {
  const std::string name = root + "byteorder";
  if (!zip.Has(name)) return absl::OkStatus();
  const auto order = zip.Find(name);
  if (!order.ok()) return order.status();
  if (AsText(*order) == "little") return absl::OkStatus();
  return InvalidFile("its byteorder is \"", AsText(*order).substr(0, 20), "\", expected \"little\"");
}

bool IsDict(const PickleValue* value) {
  return value != nullptr && (value->Is(Kind::kDict) || (value->Is(Kind::kObject) && !value->pairs.empty()));
}

std::string Keys(const PickleValue& dict) {
  std::string text;
  size_t shown = 0;
  for (const auto& [key, value] : dict.pairs) {
    if (shown++ == 8) return text + ", ...";
    text += Concat(shown > 1 ? ", " : "", Describe(*key));
  }
  return text.empty() ? "none" : text;
}

// An argparse.Namespace keeps its values in its state; a plain dict or a dict-like object has them as items.
nlohmann::json ReadArguments(const PickleValue* value) {
  if (value == nullptr) return nullptr;
  const PickleValue* dict = value->pairs.empty() && value->state != nullptr ? value->state : value;
  auto arguments = nlohmann::json::object();
  for (const auto& [key, item] : dict->pairs) {
    if (!key->Is(Kind::kString)) continue;
    nlohmann::json& target = arguments[std::string(key->text)];
    if (item->Is(Kind::kString)) target = std::string(item->text);
    if (item->Is(Kind::kInteger)) target = item->integer;
    if (item->Is(Kind::kBool)) target = item->integer != 0;
    if (item->Is(Kind::kFloat)) target = item->real;
  }
  return arguments;
}

// Finds the state_dict in `root` and fills layout and weights.
absl::StatusOr<const PickleValue*> FindStateDict(const PickleValue& root, WeightChoice choice, TorchFile& file) {
  if (root.Is(Kind::kObject) && root.pairs.empty()) {
    return InvalidFile("it holds an object of ", Describe(root), " instead of tensors; save the model's state_dict()");
  }
  if (!IsDict(&root)) return InvalidFile("it holds ", Describe(root), ", expected a dict");
  const PickleValue *model = root.Get("model"), *average = root.Get("model_ema");
  if (IsDict(model) || IsDict(average)) {
    file.layout = "DeiT layout";
    if (IsDict(model) && IsDict(average)) file.weights = choice == WeightChoice::kEma ? "ema" : "model";
    const PickleValue* wanted = choice == WeightChoice::kEma ? average : model;
    if (IsDict(wanted)) return wanted;
    if (choice == WeightChoice::kEma) return InvalidFile("--weights ema: it holds no [\"model_ema\"]");
    return InvalidFile("it holds [\"model_ema\"] but no [\"model\"]; --weights ema chooses the average");
  }
  if (choice == WeightChoice::kEma) return InvalidFile("--weights ema: it holds no [\"model_ema\"]");
  const PickleValue* state = root.Get("state");
  if (IsDict(state) && IsDict(state->Get("model"))) {
    file.layout = "Composer layout";
    return state->Get("model");
  }
  for (const PickleValue* module : {model, state != nullptr ? state->Get("model") : nullptr}) {
    if (module != nullptr && module->Is(Kind::kObject) && !LooksLikeTensor(*module)) {
      return InvalidFile("its [\"model\"] is an object of ", Describe(*module), "; save the model's state_dict()");
    }
  }
  for (const auto& [key, value] : root.pairs) {
    if (LooksLikeTensor(*value)) {
      file.layout = "plain state_dict";
      return &root;
    }
  }
  return InvalidFile("it holds no tensors under [\"model\"], [\"state\"][\"model\"] or at the top; its keys are ",
                     Keys(root));
}

}  // namespace

bool IsZip(Bytes bytes) { return StartsWith(bytes, "PK\x03\x04") || StartsWith(bytes, "PK\x05\x06"); }

bool IsOldTorchFile(Bytes bytes) { return StartsWith(bytes, "\x80") || IsTar(bytes); }

absl::StatusOr<TorchFile> ReadTorchFile(Bytes bytes, WeightChoice choice) {
  if (auto status = CheckFormat(bytes); !status.ok()) return status;
  const auto zip = ZipReader::Parse(bytes);
  if (!zip.ok()) return zip.status();
  const auto root = FindRoot(*zip);
  if (!root.ok()) return root.status();
  if (auto status = CheckByteOrder(*zip, *root); !status.ok()) return status;
  const auto pickled = zip->Find(*root + "data.pkl");
  if (!pickled.ok()) return pickled.status();
  if (pickled->size() > kMaxPickleBytes) {
    return InvalidFile(*root, "data.pkl has ", pickled->size(), " bytes, at most ", kMaxPickleBytes, " are read");
  }
  if (auto status = zip->CheckCrc32(*root + "data.pkl"); !status.ok()) return status;
  const auto pickle = Pickle::Parse(*pickled);
  if (!pickle.ok()) return InvalidFile(*root, "data.pkl: ", pickle.status().message());

  TorchFile file;
  const auto state = FindStateDict(pickle->root(), choice, file);
  if (!state.ok()) return state.status();
  file.arguments = ReadArguments(pickle->root().Get("args"));
  TorchStorages storages{&*zip, *root};
  for (const auto& [key, value] : (*state)->pairs) {
    if (!key->Is(Kind::kString)) return InvalidFile("a tensor's name is ", Describe(*key), ", expected a string");
    const std::string name(key->text);
    if (!value->Is(Kind::kObject)) {
      file.warnings.push_back(Concat("\"", name, "\" beside the tensors is ", Describe(*value), ": ignored"));
      continue;
    }
    auto tensor = ReadTorchTensor(*value, storages);
    if (!tensor.ok()) return InvalidFile("tensor ", name, ": ", tensor.status().message());
    if (!file.tensors.emplace(name, std::move(*tensor)).second) return InvalidFile("tensor ", name, " is there twice");
  }
  return file;
}

}  // namespace lion
