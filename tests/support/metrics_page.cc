#include "tests/support/metrics_page.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "absl/strings/match.h"
#include "tests/support/http_get.h"

namespace lion::testing {

Samples ScrapeMetrics(int port) {
  Samples samples;
  std::istringstream text(HttpGet(port, "/metrics"));
  for (std::string line; std::getline(text, line);) {
    const size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    samples[line.substr(0, space)] = std::atof(line.substr(space + 1).c_str());
  }
  return samples;
}

double SumOf(const Samples& samples, const std::string& family, const std::vector<std::string>& labels) {
  double sum = 0;
  for (const auto& [series, sample] : samples) {
    const bool is_of_family = series == family || absl::StartsWith(series, family + "{");
    const auto has = [&series = series](const std::string& label) { return absl::StrContains(series, label); };
    if (is_of_family && std::all_of(labels.begin(), labels.end(), has)) sum += sample;
  }
  return sum;
}

}  // namespace lion::testing
