#include "model_loader/checkpoint.h"

#include <filesystem>
#include <set>
#include <utility>

#include "model_loader/bytes.h"
#include "model_loader/model_folder.h"
#include "model_loader/safetensors.h"
#include "model_loader/sidecar.h"
#include "model_loader/torch_file.h"
#include "model_loader/utf8.h"

namespace lion {
namespace {

namespace fs = std::filesystem;

// Reads one file into `checkpoint`, whose tensors it replaces.
absl::Status ReadOneFile(const std::string& path, WeightChoice choice, Checkpoint& checkpoint) {
  auto mapped = MappedFile::Open(path, checkpoint.access);
  if (!mapped.ok()) return mapped.status();
  const Bytes bytes = mapped->bytes();
  checkpoint.files.push_back(std::move(*mapped));
  // A safetensors file begins with a length, whose bytes may look like the beginning of a pickle.
  const bool looks_like_safetensors = IsSafetensors(bytes) || path.ends_with(".safetensors");
  if (IsZip(bytes) || (IsOldTorchFile(bytes) && !looks_like_safetensors)) {
    checkpoint.format = "torch zip";
    auto file = ReadTorchFile(bytes, choice);
    if (!file.ok()) return InvalidFile(path, ": ", file.status().message());
    checkpoint.format += ", " + file->layout;
    checkpoint.tensors = std::move(file->tensors);
    checkpoint.arguments = std::move(file->arguments);
    checkpoint.weights = std::move(file->weights);
    checkpoint.warnings.insert(checkpoint.warnings.end(), file->warnings.begin(), file->warnings.end());
    return absl::OkStatus();
  }
  if (AsText(bytes).starts_with("version https://git-lfs")) {
    return InvalidFile(path, ": is a Git LFS pointer, not the file itself; fetch it with git lfs pull");
  }
  if (!looks_like_safetensors) {
    return InvalidFile(path, ": is neither a torch.save archive (zip) nor a safetensors file");
  }
  checkpoint.format = "safetensors";
  auto tensors = ReadSafetensors(bytes);
  if (!tensors.ok()) return InvalidFile(path, ": ", tensors.status().message());
  if (choice == WeightChoice::kEma)
    return InvalidFile(path, ": --weights ema: a safetensors file holds one set of weights");
  checkpoint.tensors = std::move(*tensors);
  return absl::OkStatus();
}

absl::Status ReadShards(const std::string& index_path, WeightChoice choice, Checkpoint& checkpoint) {
  const auto index = ReadShardIndex(index_path);
  if (!index.ok()) return index.status();
  const fs::path folder = fs::path(index_path).parent_path();
  std::map<std::string, TensorView> all;
  std::set<std::pair<std::string, std::string>> found;
  for (const std::string& shard : index->files) {
    if (auto status = ReadOneFile((folder / shard).string(), choice, checkpoint); !status.ok()) return status;
    for (auto& [name, tensor] : checkpoint.tensors) {
      found.emplace(name, shard);
      if (!all.emplace(name, std::move(tensor)).second) {
        return InvalidFile(index_path, ": tensor ", name, " is in several shards, ", shard, " and one before it");
      }
    }
    checkpoint.tensors.clear();
  }
  for (const auto& placed : index->placement) {
    if (found.erase(placed) == 0) {
      return InvalidFile(index_path, ": tensor ", placed.first, " is not in ", placed.second,
                         ", where the index places it");
    }
  }
  if (!found.empty()) {
    return InvalidFile(index_path, ": tensor ", found.begin()->first, " of ", found.begin()->second,
                       " is not in the index");
  }
  checkpoint.tensors = std::move(all);
  checkpoint.format += Concat(", ", index->files.size(), " shards");
  return absl::OkStatus();
}

// BERT checkpoints that were converted from TensorFlow call a LayerNorm's weight gamma and its bias beta.
void RenameOldLayerNorms(std::map<std::string, TensorView>& tensors) {
  std::map<std::string, TensorView> renamed;
  for (auto& [name, tensor] : tensors) {
    std::string target = name;
    if (name.ends_with("LayerNorm.gamma")) target = name.substr(0, name.size() - 5) + "weight";
    if (name.ends_with("LayerNorm.beta")) target = name.substr(0, name.size() - 4) + "bias";
    // A file with both names keeps the old one, to be listed as unexpected.
    if (tensors.contains(target)) target = name;
    renamed.emplace(target, tensor);
  }
  tensors = std::move(renamed);
}

}  // namespace

std::string StripPrefixes(std::map<std::string, TensorView>& tensors) {
  std::string stripped;
  // Where all names start with it, the first and the last in order do, and all between them.
  const auto all_start_with = [&tensors](const std::string& prefix) {
    return tensors.begin()->first.starts_with(prefix) && tensors.rbegin()->first.starts_with(prefix);
  };
  for (bool again = !tensors.empty(); again;) {
    again = false;
    for (const std::string prefix : {"module.", "_orig_mod.", "model."}) {
      if (!all_start_with(prefix)) continue;
      std::map<std::string, TensorView> shorter;
      for (auto& [name, tensor] : tensors) shorter.emplace(name.substr(prefix.size()), std::move(tensor));
      tensors = std::move(shorter);
      stripped += prefix;
      again = true;
    }
  }
  return stripped;
}

absl::Status ReadCheckpoint(const std::string& path, WeightChoice choice, Checkpoint& checkpoint) {
  checkpoint.file = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    auto found = FindCheckpoint(path);
    if (!found.ok()) return found.status();
    checkpoint.file = std::move(found->path);
    for (const std::string& other : found->passed_over) checkpoint.warnings.push_back(other + " beside it is not read");
  }
  // The API names the file.
  if (Utf8Prefix(checkpoint.file) != checkpoint.file.size()) {
    return InvalidFile(checkpoint.file, ": the name of the file or of a folder above it is not UTF-8");
  }
  absl::Status status = IsShardIndex(checkpoint.file) ? ReadShards(checkpoint.file, choice, checkpoint)
                                                      : ReadOneFile(checkpoint.file, choice, checkpoint);
  if (!status.ok()) return status;
  checkpoint.stripped_prefix = StripPrefixes(checkpoint.tensors);
  RenameOldLayerNorms(checkpoint.tensors);
  return ReadSidecars(fs::path(checkpoint.file).parent_path().string(), checkpoint);
}

}  // namespace lion
