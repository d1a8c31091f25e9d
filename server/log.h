// Log lines on stderr. The one place that knows the logging library.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lion {

enum class LogFormat { kText, kJson };

// `level`: "debug", "info", "warning", "error" or "off". JSON: one valid JSON object a line. The messages of
// gRPC and protobuf go to the debug level. Before any other thread is started.
absl::Status SetUpLog(LogFormat format, const std::string& level);

// All of these from any thread.
void LogDebug(absl::string_view message);
void LogInfo(absl::string_view message);
void LogWarning(absl::string_view message);
void LogError(absl::string_view message);
// A warning "slow request" and, behind it, these JSON members: `"name":value,...`. In JSON they are the object
// "request".
void LogSlowRequest(absl::string_view members);

}  // namespace lion
