#include "model_loader/json_file.h"

#include <filesystem>

#include "model_loader/bytes.h"
#include "model_loader/mapped_file.h"

namespace lion {

absl::StatusOr<std::optional<std::string>> ReadTextFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  // An empty file is an error of MappedFile, but is an empty text.
  if (std::filesystem::is_regular_file(path, error) && std::filesystem::is_empty(path, error)) return std::string();
  const auto file = MappedFile::Open(path, FileAccess::kCopied);
  if (!file.ok()) return file.status();
  return std::string(AsText(file->bytes()));
}

absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path, nlohmann::json::value_t expected) {
  const auto text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  if (!*text) return nullptr;
  auto json = ParseJson(**text);
  if (!json.ok()) return InvalidFile(path, ": ", json.status().message());
  if (json->type() != expected) {
    return InvalidFile(path, ": holds JSON of type ", json->type_name(), ", expected an ",
                       nlohmann::json(expected).type_name());
  }
  return json;
}

}  // namespace lion
