// The report of a run, for people and for programs. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/cli/bench/bench.h"
#include "client/cli/bench/summary.h"
#include "lion/v1/lion.pb.h"

namespace lion::bench {

// Text for a terminal of 100 columns and more, ended by '\n'. `model`: as the server described it.
std::string ReportText(const BenchFlags& flags, const v1::Model& model, const Summary& summary);

// One JSON object, without a newline. Times are integers in nanoseconds; a percentile that the sample does not support
// is null. Keys are only ever added.
std::string ReportJson(const BenchFlags& flags, const v1::Model& model, const Summary& summary);

// Writes such an object and a newline to a file, whole or not at all; path "": to standard output.
absl::Status WriteReport(const std::string& path, const std::string& json);

}  // namespace lion::bench
