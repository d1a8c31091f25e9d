// An object of a JSON file, read key by key, where the first fault is kept and everything after it reads as nothing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lion {

// Does not own json, nor the status, which all objects of a file share. A value that is null is as good as absent.
class JsonObject {
 public:
  // `name` leads to the object in errors: "FOLDER/tokenizer.json: ", then with a key and a point for each object
  // within.
  JsonObject(std::string name, const nlohmann::json& json, absl::Status& status);

  bool Has(const std::string& key) const { return Find(key) != nullptr; }
  std::optional<bool> Boolean(const std::string& key) const;
  std::optional<std::string> Text(const std::string& key) const;
  // From 0 up to `limit`.
  std::optional<int64_t> Integer(const std::string& key, int64_t limit) const;
  // Empty where there is none: that is a fault.
  JsonObject Object(const std::string& key) const;
  // Null without it.
  const nlohmann::json* Array(const std::string& key) const;
  // Of an array that is there; empty where it is no object: that is a fault.
  JsonObject Item(const std::string& key, size_t index) const;
  const nlohmann::json* Find(const std::string& key) const;

  // Those that must be there.
  bool NeedBoolean(const std::string& key) const { return Need(key, Boolean(key), "true or false"); }
  std::string NeedText(const std::string& key) const { return Need(key, Text(key), "a text"); }
  int64_t NeedInteger(const std::string& key, int64_t limit) const {
    return Need(key, Integer(key, limit), "a whole number");
  }
  // A fault unless the text under `key` is this one.
  void Expect(const std::string& key, std::string_view text) const;
  // A fault if there is another key.
  void AllowOnly(std::initializer_list<std::string_view> keys) const;
  // The fault "NAME KEY is VALUE, expected EXPECTED".
  void Wrong(const std::string& key, std::string_view expected) const;
  // The status, if it is still OK.
  void Fault(std::string_view why) const;

  const nlohmann::json& json() const { return json_; }
  absl::Status& status() const { return status_; }

 private:
  template <typename T>
  T Need(const std::string& key, std::optional<T> value, std::string_view expected) const {
    if (!value) Wrong(key, expected);
    return std::move(value).value_or(T());
  }

  std::string name_;
  const nlohmann::json& json_;
  absl::Status& status_;
};

}  // namespace lion
