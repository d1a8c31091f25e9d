#include "model_loader/settings.h"

#include <algorithm>

#include "model_loader/bytes.h"

namespace lion {

using nlohmann::json;

absl::Status Findings::status() const {
  if (problems.empty()) return absl::OkStatus();
  std::string text;
  for (const std::string& problem : problems) text += (text.empty() ? "" : "; ") + problem;
  return absl::InvalidArgumentError(text);
}

const json* Source::Value(const std::string& key) {
  known_.insert(key);
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Source::WrongType(const std::string& key, const json& value, const char* expected) {
  std::string shown = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 60) + "...";
  findings_.problems.push_back(Concat(Origin(key), " is ", shown, ", expected ", expected));
}

std::optional<int64_t> Source::Integer(const std::string& key) {
  const json* value = Value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) {
    WrongType(key, *value, "an integer of 64 bits");
    return std::nullopt;
  }
  if (value->is_number_integer()) return value->get<int64_t>();
  WrongType(key, *value, "an integer");
  return std::nullopt;
}

std::optional<double> Source::Real(const std::string& key) {
  const json* value = Value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  WrongType(key, *value, "a number");
  return std::nullopt;
}

std::optional<bool> Source::Boolean(const std::string& key) {
  const json* value = Value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  // Flags of type=int are common in training scripts.
  if (*value == 0 || *value == 1) return *value == 1;
  WrongType(key, *value, "true or false");
  return std::nullopt;
}

std::optional<std::string> Source::Text(const std::string& key) {
  const json* value = Value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  WrongType(key, *value, "a string");
  return std::nullopt;
}

void Source::WarnOfUnknownKeys() {
  if (!object_.is_object()) return;
  std::string unknown;
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key)) unknown += (unknown.empty() ? "" : ", ") + key;
  }
  if (!unknown.empty()) findings_.warnings.push_back(name_ + ": unknown keys are ignored: " + unknown);
}

void Decision::Claim(Rank rank, int64_t value, std::string shown, std::string origin) {
  claims_.push_back({rank, value, std::move(shown), std::move(origin)});
}

void Decision::ClaimInteger(Source& source, const char* key) {
  if (const auto value = source.Integer(key)) Claim(source.rank(), *value, std::to_string(*value), source.Origin(key));
}

void Decision::ClaimBoolean(Source& source, const char* key) {
  if (const auto value = source.Boolean(key))
    Claim(source.rank(), *value, *value ? "true" : "false", source.Origin(key));
}

void Decision::Fact(int64_t value, std::string shown, std::string origin) {
  fact_ = Statement{Rank::kFlag, value, std::move(shown), std::move(origin)};
}

void Decision::Exclude(int64_t value, std::string reason) { excluded_.emplace_back(value, std::move(reason)); }

void Decision::Default(int64_t value, std::string shown, std::string origin) {
  default_ = Statement{Rank::kNamedSize, value, std::move(shown), std::move(origin)};
}

std::optional<int64_t> Decision::Settle(Findings& findings) const {
  const size_t problems_before = findings.problems.size();
  for (const Statement& claim : claims_) {
    if (fact_ && claim.value != fact_->value) {
      findings.problems.push_back(
          Concat(key_, ": ", claim.origin, " says ", claim.shown, ", but ", fact_->origin, " says ", fact_->shown));
    }
    for (const auto& [value, reason] : excluded_) {
      if (claim.value == value) {
        findings.problems.push_back(Concat(key_, ": ", claim.origin, " says ", claim.shown, ", but ", reason));
      }
    }
  }
  const Statement* best = fact_ ? &*fact_ : nullptr;
  if (!fact_) {
    for (const Statement& claim : claims_) {
      if (best == nullptr || claim.rank > best->rank) best = &claim;
    }
    for (const Statement& claim : claims_) {
      if (claim.rank == best->rank && claim.value != best->value) {
        findings.problems.push_back(
            Concat(key_, ": ", best->origin, " says ", best->shown, ", but ", claim.origin, " says ", claim.shown));
      }
    }
    if (best == nullptr && default_) best = &*default_;
    if (best == nullptr) {
      findings.problems.push_back(
          Concat(key_, ": neither the tensors nor config.json nor the checkpoint's args say it; ", remedy_));
    }
  }
  if (findings.problems.size() != problems_before) return std::nullopt;
  findings.Note(key_, best->shown, best->origin);
  return best->value;
}

}  // namespace lion
