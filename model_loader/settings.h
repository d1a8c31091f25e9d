// Settles each architecture value between tensors, flags, config.json and checkpoint arguments ("Who decides",
// docs/mathematics.md, section 5), and keeps where it came from. Private to model_loader.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model_loader/model_loader.h"

namespace lion {

// What was found on the way. Problems are gathered, so that one error names them all.
struct Findings {
  std::vector<Provenance> provenance;
  std::vector<std::string> warnings;
  std::vector<std::string> problems;

  void Note(const std::string& key, const std::string& value, const std::string& origin) {
    provenance.push_back({key, value, origin});
  }
  absl::Status status() const;  // OK, or INVALID_ARGUMENT with all problems
};

// From the weakest to the strongest; tensors stand above all of them.
enum class Rank : uint8_t { kNamedSize, kArguments, kConfig, kFlag };

// A JSON object of settings. A value of the wrong type is a problem, null is as good as absent. Does not own the
// object.
class Source {
 public:
  Source(std::string name, Rank rank, const nlohmann::json& object, Findings& findings)
      : name_(std::move(name)), rank_(rank), object_(object), findings_(findings) {}

  std::optional<int64_t> Integer(const std::string& key);
  std::optional<double> Real(const std::string& key);
  std::optional<bool> Boolean(const std::string& key);
  std::optional<std::string> Text(const std::string& key);
  const nlohmann::json* Value(const std::string& key);  // any type; null without it

  // Marks keys that are known and of no consequence here.
  void Ignore(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  // One warning with all keys that nobody asked for.
  void WarnOfUnknownKeys();

  std::string Origin(const std::string& key) const { return name_ + " " + key; }
  Rank rank() const { return rank_; }
  bool exists() const { return object_.is_object(); }
  Findings& findings() { return findings_; }

 private:
  void WrongType(const std::string& key, const nlohmann::json& value, const char* expected);

  std::string name_;
  Rank rank_;
  const nlohmann::json& object_;
  Findings& findings_;
  std::set<std::string> known_;
};

// One value in the making. Enumerations are carried as their integers; `shown` is what people read.
class Decision {
 public:
  // `remedy` ends the error for a value that nobody gives: "give --heads".
  Decision(std::string key, std::string remedy) : key_(std::move(key)), remedy_(std::move(remedy)) {}

  void Claim(Rank rank, int64_t value, std::string shown, std::string origin);
  void ClaimInteger(Source& source, const char* key);
  void ClaimBoolean(Source& source, const char* key);
  // What the tensors say. Every claim must agree with it.
  void Fact(int64_t value, std::string shown, std::string origin);
  // A value the tensors rule out, and why.
  void Exclude(int64_t value, std::string reason);
  // What holds when nobody claims anything.
  void Default(int64_t value, std::string shown, std::string origin);

  bool claimed() const { return !claims_.empty(); }
  // The value, its provenance noted; or nothing, with the problems noted.
  std::optional<int64_t> Settle(Findings& findings) const;

 private:
  struct Statement {
    Rank rank;
    int64_t value;
    std::string shown, origin;
  };

  std::string key_, remedy_;
  std::vector<Statement> claims_;
  std::optional<Statement> fact_, default_;
  std::vector<std::pair<int64_t, std::string>> excluded_;
};

// Claims of one named value, `parse` turning the text into the enumeration's integer.
template <typename Enum>
void ClaimName(Decision& decision, Source& source, const char* key, std::optional<Enum> (*parse)(std::string_view),
               std::string_view (*name)(Enum), const char* accepted) {
  const auto text = source.Text(key);
  if (!text) return;
  if (const auto value = parse(*text)) {
    decision.Claim(source.rank(), static_cast<int64_t>(*value), std::string(name(*value)), source.Origin(key));
  } else {
    source.findings().problems.push_back(source.Origin(key) + " is \"" + *text + "\", expected one of " + accepted);
  }
}

}  // namespace lion
