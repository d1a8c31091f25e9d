#include "model_loader/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "model_loader/bytes.h"
#include "model_loader/json.h"
#include "model_loader/mapped_file.h"

namespace lion {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexSuffix[] = ".index.json";

// What Hugging Face's Trainer leaves beside a model.
bool IsTrainingState(const std::string& name) {
  for (const char* known :
       {"training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "scheduler.bin", "scaler.pt"}) {
    if (name == known) return true;
  }
  return name.starts_with("rng_state");
}

bool HasWeightsExtension(const std::string& name) {
  const std::string extension = fs::path(name).extension().string();
  return extension == ".safetensors" || extension == ".pth" || extension == ".pt" || extension == ".bin";
}

}  // namespace

bool IsShardIndex(const std::string& path) { return path.ends_with(kIndexSuffix); }

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& folder) {
  std::set<std::string> names, candidates;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.insert(it->path().filename().string());
  }
  if (error) return absl::UnavailableError(Concat(folder, ": cannot list the folder: ", error.message()));
  for (const std::string& name : names) {
    if (IsShardIndex(name) || (HasWeightsExtension(name) && !IsTrainingState(name))) candidates.insert(name);
  }
  for (const std::string& name : names) {
    if (!IsShardIndex(name)) continue;
    const auto index = ReadShardIndex((fs::path(folder) / name).string());
    if (!index.ok()) return index.status();
    for (const std::string& shard : index->files) candidates.erase(shard);
  }
  std::vector<std::string> chosen;
  for (const std::string name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                 "pytorch_model.bin.index.json", "checkpoint.pth", "latest-rank0.pt"}) {
    const bool older_format = name.starts_with("pytorch_model.bin") && !chosen.empty();
    if (candidates.contains(name) && !older_format) chosen.push_back(name);
  }
  if (chosen.empty()) chosen.assign(candidates.begin(), candidates.end());
  if (chosen.empty()) {
    return absl::NotFoundError(
        Concat(folder,
               ": holds no checkpoint (model.safetensors, its index, pytorch_model.bin, "
               "checkpoint.pth, latest-rank0.pt, or one other .safetensors, .pth, .pt or .bin file)"));
  }
  if (chosen.size() > 1) {
    std::string list;
    for (const std::string& name : chosen) list += (list.empty() ? "" : ", ") + name;
    return InvalidFile(folder, ": holds several checkpoints, name one of them: ", list);
  }
  candidates.erase(chosen[0]);
  return FoundCheckpoint{(fs::path(folder) / chosen[0]).string(), {candidates.begin(), candidates.end()}};
}

absl::StatusOr<ShardIndex> ReadShardIndex(const std::string& path) {
  const auto file = MappedFile::Open(path, FileAccess::kCopied);
  if (!file.ok()) return file.status();
  const auto json = ParseJson(AsText(file->bytes()));
  if (!json.ok()) return InvalidFile(path, ": ", json.status().message());
  if (!json->is_object() || !json->contains("weight_map") || !(*json)["weight_map"].is_object()) {
    return InvalidFile(path, ": holds no weight_map object");
  }
  ShardIndex index;
  std::set<std::string> files;
  for (const auto& [tensor, value] : (*json)["weight_map"].items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (shard.empty() || shard == "." || shard == ".." || shard.find('/') != std::string::npos ||
        shard.find('\0') != std::string::npos || IsShardIndex(shard)) {
      return InvalidFile(path, ": tensor ", tensor, ": its shard is not the plain name of a file in this folder");
    }
    files.insert(shard);
    index.placement.emplace_back(tensor, shard);
  }
  if (files.empty()) return InvalidFile(path, ": its weight_map is empty");
  index.files.assign(files.begin(), files.end());
  return index;
}

}  // namespace lion
