#include "server/tokenizer/json_object.h"

#include <algorithm>

#include "model_loader/bytes.h"

namespace lion {
namespace {

const nlohmann::json& NoObject() {
  static const auto* const kEmpty = new nlohmann::json(nlohmann::json::object());
  return *kEmpty;
}

// What people read of a value, however long it is.
std::string Shown(const nlohmann::json& value) {
  if (value.is_structured()) return Concat("an ", value.type_name(), " of ", value.size(), " items");
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  constexpr size_t kLongest = 100;
  if (text.size() > kLongest) text = "a text of " + std::to_string(text.size() - 2) + " bytes";
  return text;
}

}  // namespace

JsonObject::JsonObject(std::string name, const nlohmann::json& json, absl::Status& status)
    : name_(std::move(name)), json_(json.is_object() ? json : NoObject()), status_(status) {}

const nlohmann::json* JsonObject::Find(const std::string& key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void JsonObject::Fault(std::string_view why) const {
  if (status_.ok()) status_ = InvalidFile(name_, why);
}

void JsonObject::Wrong(const std::string& key, std::string_view expected) const {
  const nlohmann::json* value = Find(key);
  Fault(value != nullptr ? Concat(key, " is ", Shown(*value), ", expected ", expected)
                         : Concat(key, " is missing, expected ", expected));
}

std::optional<bool> JsonObject::Boolean(const std::string& key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Wrong(key, "true or false");
  return std::nullopt;
}

std::optional<std::string> JsonObject::Text(const std::string& key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Wrong(key, "a text");
  return std::nullopt;
}

std::optional<int64_t> JsonObject::Integer(const std::string& key, int64_t limit) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() <= static_cast<uint64_t>(limit)) {
    return value->get<int64_t>();
  }
  Wrong(key, Concat("a whole number from 0 to ", limit));
  return std::nullopt;
}

JsonObject JsonObject::Object(const std::string& key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || !value->is_object()) Wrong(key, "an object");
  return JsonObject(Concat(name_, key, "."), value == nullptr ? NoObject() : *value, status_);
}

JsonObject JsonObject::Item(const std::string& key, size_t index) const {
  const nlohmann::json& item = json_.at(key).at(index);
  const std::string name = Concat(key, "[", index, "]");
  if (!item.is_object()) Fault(Concat(name, " is ", Shown(item), ", expected an object"));
  return JsonObject(Concat(name_, name, "."), item, status_);
}

const nlohmann::json* JsonObject::Array(const std::string& key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || value->is_array()) return value;
  Wrong(key, "an array");
  return nullptr;
}

void JsonObject::Expect(const std::string& key, std::string_view text) const {
  if (const auto found = Text(key); found != text) Wrong(key, Concat("\"", text, "\""));
}

void JsonObject::AllowOnly(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : json_.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      Fault(Concat(nlohmann::json(key).dump(), " is a key that is not known here"));
    }
  }
}

}  // namespace lion
