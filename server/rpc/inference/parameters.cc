#include "server/rpc/inference/parameters.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/batch_policy.h"
#include "server/utf8.h"

namespace lion {
namespace {

using inference::InferParameter;

constexpr size_t kShownBytes = 100;
constexpr int64_t kNsPerUs = 1000;
constexpr int64_t kMostInteger = std::numeric_limits<int64_t>::max();
// Of the protocol, whose 1 is the most urgent and whose 0 is the default.
constexpr int64_t kPriorityLevels = kMaxPriority + 1;

const char* TypeName(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return "a bool";
    case InferParameter::kInt64Param:
    case InferParameter::kUint64Param:
      return "an integer";
    case InferParameter::kStringParam:
      return "a string";
    case InferParameter::kDoubleParam:
      return "a double";
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return "nothing";
}

absl::Status Wrong(const std::string& name, const std::string& found, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("parameter '", name, "': got ", found, ", want ", expected));
}

// Null: there is none.
const InferParameter* Find(const ParameterMap& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  return found == parameters.end() ? nullptr : &found->second;
}

absl::Status ReadPooling(const ParameterMap& parameters, InferOptions* options) {
  const InferParameter* const found = Find(parameters, "pooling");
  if (found == nullptr) return absl::OkStatus();
  constexpr char kWanted[] = "'mean', 'cls', 'pooler', 'max', 'last' or 'none'";
  if (!found->has_string_param()) return Wrong("pooling", TypeName(*found), kWanted);
  options->pooling = ParsePooling(found->string_param());
  if (options->pooling.has_value()) return absl::OkStatus();
  return Wrong("pooling", absl::StrCat("'", CutUtf8(found->string_param(), kShownBytes), "'"), kWanted);
}

absl::Status ReadNormalize(const ParameterMap& parameters, InferOptions* options) {
  const InferParameter* const found = Find(parameters, "normalize");
  if (found == nullptr) return absl::OkStatus();
  if (!found->has_bool_param()) return Wrong("normalize", TypeName(*found), "a bool");
  options->normalize = found->bool_param();
  return absl::OkStatus();
}

absl::Status ReadTruncation(const ParameterMap& parameters, InferOptions* options) {
  const InferParameter* const found = Find(parameters, "truncate");
  if (found == nullptr) return absl::OkStatus();
  constexpr char kWanted[] = "'NONE', 'START' or 'END'";
  if (!found->has_string_param()) return Wrong("truncate", TypeName(*found), kWanted);
  const std::string value = absl::AsciiStrToUpper(found->string_param());
  if (value == "NONE") options->truncation = TextTruncation::kNone;
  if (value == "START") options->truncation = TextTruncation::kStart;
  if (value == "END") options->truncation = TextTruncation::kEnd;
  if (options->truncation.has_value()) return absl::OkStatus();
  return Wrong("truncate", absl::StrCat("'", CutUtf8(found->string_param(), kShownBytes), "'"), kWanted);
}

}  // namespace

absl::StatusOr<std::optional<int64_t>> ReadInteger(const ParameterMap& parameters, const std::string& name,
                                                   int64_t most) {
  const InferParameter* const found = Find(parameters, name);
  if (found == nullptr) return std::nullopt;
  const std::string wanted = absl::StrCat("an integer from 0 to ", most);
  if (found->has_uint64_param()) {
    if (found->uint64_param() <= static_cast<uint64_t>(most)) return static_cast<int64_t>(found->uint64_param());
    return Wrong(name, absl::StrCat(found->uint64_param()), wanted);
  }
  if (!found->has_int64_param()) return Wrong(name, TypeName(*found), wanted);
  const int64_t value = found->int64_param();
  if (value >= 0 && value <= most) return value;
  return Wrong(name, absl::StrCat(value), wanted);
}

absl::StatusOr<InferOptions> ReadParameters(const ParameterMap& parameters) {
  InferOptions options;
  for (const auto read : {ReadPooling, ReadNormalize, ReadTruncation}) {
    if (absl::Status status = read(parameters, &options); !status.ok()) return status;
  }
  absl::StatusOr<std::optional<int64_t>> value = ReadInteger(parameters, "dimensions", kMostInteger);
  if (!value.ok()) return value.status();
  options.dimensions = value->value_or(0);
  value = ReadInteger(parameters, "top_k", kMostInteger);
  if (!value.ok()) return value.status();
  if (value->value_or(0) > 0) options.predictions = **value;
  value = ReadInteger(parameters, "priority", kMostInteger);
  if (!value.ok()) return value.status();
  if (value->value_or(0) > 0) options.priority = static_cast<int>(std::max<int64_t>(0, kPriorityLevels - **value));
  value = ReadInteger(parameters, "timeout", kMostInteger / kNsPerUs);
  if (!value.ok()) return value.status();
  options.timeout_ns = value->value_or(0) * kNsPerUs;
  return options;
}

}  // namespace lion
