#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/bench/local.h"
#include "client/cli/text.h"

namespace lion::bench {
namespace {

std::string Milliseconds(double ms) { return absl::StrFormat("%.*f", ms < 10 ? 2 : ms < 100 ? 1 : 0, ms); }

}  // namespace

std::string LocalText(const LocalReport& report) {
  std::string text = absl::StrCat(Printable(report.model), ": ", report.variant, ", ", report.compute_type, ", ",
                                  report.isa, ", ", report.threads, report.threads == 1 ? " thread" : " threads",
                                  "; weights ", FormatBytes(static_cast<uint64_t>(report.weight_bytes)),
                                  ", activations ", report.bytes_per_token, " bytes a token\n\n");
  std::vector<std::vector<std::string>> rows = {
      {"INPUT", "BATCH", "TOKENS", "MS", "TOKENS/S", "PRODUCTS ALONE MS", "RATIO", "RUNS"}};
  for (const LocalRow& row : report.rows) {
    rows.push_back({row.input, absl::StrCat(row.batch), absl::StrCat(row.tokens), Milliseconds(row.forward_ms),
                    FormatCount(static_cast<uint64_t>(row.tokens_per_s)), Milliseconds(row.limit_ms),
                    absl::StrFormat("%.2f", row.forward_ms / row.limit_ms), absl::StrCat(row.repeats)});
  }
  std::vector<size_t> widths;
  absl::StrAppend(
      &text, FormatTable(rows, "lr", widths),
      "\nMedians. PRODUCTS ALONE: the layers' matrix products without anything else, measured in the same run: "
      "what\nthis machine's matrix units can do. RATIO: the forward pass as a multiple of it.\n");
  return text;
}

std::string LocalJson(const LocalReport& report) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["model"] = report.model;
  json["variant"] = report.variant;
  json["compute_type"] = report.compute_type;
  json["isa"] = report.isa;
  json["threads"] = report.threads;
  json["weight_bytes"] = report.weight_bytes;
  json["bytes_per_token"] = report.bytes_per_token;
  json["rows"] = Json::array();
  for (const LocalRow& row : report.rows) {
    json["rows"].push_back({{"input", row.input},
                            {"batch", row.batch},
                            {"tokens", row.tokens},
                            {"forward_ns", std::llround(1e6 * row.forward_ms)},
                            {"products_ns", std::llround(1e6 * row.limit_ms)},
                            {"repeats", row.repeats}});
  }
  // A path need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lion::bench
