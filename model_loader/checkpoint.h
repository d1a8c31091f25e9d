// All that a checkpoint file or folder holds, before anyone asks what architecture it is. Private to model_loader.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model_loader/mapped_file.h"
#include "model_loader/model_loader.h"
#include "model_loader/sentence_pooling.h"
#include "model_loader/tensor.h"

namespace lion {

// Owns the mapped files that its tensors point into.
struct Checkpoint {
  FileAccess access = FileAccess::kMapped;  // how the files of weights are opened
  std::vector<MappedFile> files;
  std::map<std::string, TensorView> tensors;  // names without the stripped prefix
  std::string format;                         // as in LoadedModel, like the next four
  std::string file;
  std::string weights;
  std::string stripped_prefix;
  std::vector<std::string> warnings;

  nlohmann::json arguments;                        // the training script's ["args"]: an object of plain values, or null
  nlohmann::json config;                           // config.json beside the weights: an object, or null
  std::optional<std::vector<std::string>> labels;  // labels.txt
  std::optional<int64_t> vocabulary;               // entries of vocab.txt or tokenizer.json
  std::string vocabulary_origin;                   // which of them
  std::optional<SentenceFolder> sentence_folder;   // modules.json and what it names
};

// Fills `checkpoint` as far as it gets, so that a report can be made of a broken one. Errors as of LoadModel.
absl::Status ReadCheckpoint(const std::string& path, WeightChoice choice, Checkpoint& checkpoint);

// Strips "module.", "_orig_mod." and "model." from the front of all names while every name starts with the same one.
// Returns what was stripped, such as "module._orig_mod.".
std::string StripPrefixes(std::map<std::string, TensorView>& tensors);

}  // namespace lion
