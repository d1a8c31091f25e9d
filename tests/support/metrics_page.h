// What a page of Prometheus's text format says.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lion::testing {

// Series, labels included, to sample.
using Samples = std::map<std::string, double>;

// Of the page at /metrics on this machine; none: it cannot be had.
Samples ScrapeMetrics(int port);

// Of all series of `family` that have each of `labels` (`model="m"`).
double SumOf(const Samples& samples, const std::string& family, const std::vector<std::string>& labels = {});

}  // namespace lion::testing
