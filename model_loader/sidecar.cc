#include "model_loader/sidecar.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "model_loader/bytes.h"
#include "model_loader/json_file.h"
#include "model_loader/utf8.h"

namespace lion {
namespace {

// Null where the file is absent.
absl::StatusOr<nlohmann::json> ReadObject(const std::filesystem::path& path) {
  return ReadJsonFile(path.string(), nlohmann::json::value_t::object);
}

// ReadTextFile, of which every line may come to stand in a reply.
absl::StatusOr<std::optional<std::string>> ReadUtf8File(const std::filesystem::path& path) {
  auto text = ReadTextFile(path.string());
  if (!text.ok() || !*text) return text;
  if (auto status = CheckUtf8File(path.string(), **text); !status.ok()) return status;
  return text;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

// One more than the largest id of tokenizer.json's model and added tokens; no value where it names none.
std::optional<int64_t> TokenizerSize(const nlohmann::json& tokenizer) {
  int64_t size = 0;
  const auto see = [&size](const nlohmann::json& id) {
    if (id.is_number_unsigned()) size = std::max(size, static_cast<int64_t>(id.get<uint32_t>()) + 1);
  };
  if (const auto model = tokenizer.find("model"); model != tokenizer.end() && model->is_object()) {
    if (const auto words = model->find("vocab"); words != model->end() && words->is_object()) {
      for (const auto& id : *words) see(id);
    }
  }
  if (const auto added = tokenizer.find("added_tokens"); added != tokenizer.end() && added->is_array()) {
    for (const auto& token : *added) {
      if (token.is_object() && token.contains("id")) see(token["id"]);
    }
  }
  if (size == 0) return std::nullopt;
  return size;
}

}  // namespace

absl::Status ReadSidecars(const std::string& folder, Checkpoint& checkpoint) {
  const std::filesystem::path root(folder);
  auto config = ReadObject(root / "config.json");
  if (!config.ok()) return config.status();
  checkpoint.config = std::move(*config);

  auto sentence_folder = ReadSentenceFolder(folder);
  if (!sentence_folder.ok()) return sentence_folder.status();
  checkpoint.sentence_folder = std::move(*sentence_folder);

  auto labels = ReadUtf8File(root / "labels.txt");
  if (!labels.ok()) return labels.status();
  if (*labels) checkpoint.labels = Lines(**labels);

  auto vocabulary = ReadUtf8File(root / "vocab.txt");
  if (!vocabulary.ok()) return vocabulary.status();
  if (*vocabulary) {
    checkpoint.vocabulary = static_cast<int64_t>(Lines(**vocabulary).size());
    checkpoint.vocabulary_origin = "the lines of vocab.txt";
    return absl::OkStatus();
  }
  const auto tokenizer = ReadObject(root / "tokenizer.json");
  if (!tokenizer.ok()) return tokenizer.status();
  checkpoint.vocabulary = TokenizerSize(*tokenizer);
  checkpoint.vocabulary_origin = "the ids of tokenizer.json";
  return absl::OkStatus();
}

}  // namespace lion
