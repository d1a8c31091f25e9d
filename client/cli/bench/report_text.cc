#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/bench/report.h"
#include "client/cli/bench/words.h"
#include "client/cli/text.h"

namespace lion::bench {
namespace {

using Row = std::vector<std::string>;

std::string Table(const std::vector<Row>& rows, const std::string& alignment) {
  std::vector<size_t> widths;
  return FormatTable(rows, alignment, widths);
}

std::string Milliseconds(double ns) {
  const double ms = 1e-6 * ns;
  const int digits = ms < 10 ? 3 : ms < 100 ? 2 : ms < 1000 ? 1 : 0;
  return absl::StrFormat("%.*f", digits, ms);
}

std::string MillisecondsOrDash(const std::optional<int64_t>& ns) {
  return ns.has_value() ? Milliseconds(static_cast<double>(*ns)) : "-";
}

std::string Number(double value) {
  if (value >= 10'000) return FormatCount(static_cast<uint64_t>(value));
  return absl::StrFormat("%.*f", value < 1000 ? 1 : 0, value);
}

Row LatencyHeader(const std::string& name) {
  Row row = {name, "COUNT", "MEAN"};
  for (const Percentile& percentile : kPercentiles) row.push_back(percentile.name);
  row.push_back("MAX");
  return row;
}

Row LatencyRow(const std::string& name, const LatencySummary& latency) {
  if (latency.count == 0) return {name, "0", "-", "-", "-", "-", "-", "-"};
  Row row = {name, absl::StrCat(latency.count), Milliseconds(latency.mean_ns)};
  for (const auto& ns : latency.percentiles_ns) {
    row.push_back(MillisecondsOrDash(ns));
  }
  row.push_back(Milliseconds(static_cast<double>(latency.max_ns)));
  return row;
}

std::string Plural(int64_t count, const char* thing) { return absl::StrCat(count, " ", thing, count == 1 ? "" : "s"); }

std::string Heading(const BenchFlags& flags, const v1::Model& model, const Summary& summary) {
  const std::string end =
      flags.requests > 0 ? Plural(flags.requests, "call") : absl::StrFormat("%.4g s", flags.duration_s);
  std::vector<std::string> sizes;
  for (const SizeSummary& size : summary.sizes) {
    sizes.push_back(absl::StrCat(SizeName(size.size),
                                 summary.sizes.size() < 2 ? "" : absl::StrFormat(" (%.3g %%)", 100 * size.size.share)));
  }
  std::string text = absl::StrFormat(
      "%s on %s: %s, %s, %s, %s\n", CallKindName(flags.call), Printable(flags.server.address), Printable(model.name()),
      Printable(model.variant()), Printable(model.compute_type()), Printable(model.device()));
  if (flags.rate > 0) {
    absl::StrAppendFormat(&text, "open loop: %.6g calls/s, %s", flags.rate,
                          flags.poisson ? "Poisson arrivals" : "evenly spaced");
  } else {
    absl::StrAppendFormat(&text, "closed loop: %s at a time", Plural(flags.concurrency, "call"));
  }
  absl::StrAppendFormat(&text, "; %s after %.4g s of warm-up; %s; seed %u\n", end, flags.warm_up_s,
                        Plural(flags.connections, "connection"), flags.seed);
  absl::StrAppendFormat(&text, "%s a call, as %s: %s\n\n", Plural(flags.inputs_per_call, "image"),
                        ImageFormatName(flags.format), absl::StrJoin(sizes, ", "));
  return text;
}

std::string Counts(const BenchFlags& flags, const Summary& summary) {
  std::string calls =
      absl::StrFormat("%d sent, %d succeeded, %d failed", summary.sent, summary.succeeded, summary.failed);
  const int64_t not_sent = summary.not_sent_in_flight + summary.not_sent_late;
  if (flags.rate > 0) absl::StrAppend(&calls, ", ", not_sent, " not sent");
  if (summary.cut_off > 0) absl::StrAppend(&calls, ", ", summary.cut_off, " cut off");
  const std::string rate = flags.rate > 0
                               ? absl::StrFormat("%s calls/s asked for, %s came, %s answered", Number(flags.rate),
                                                 Number(summary.arrived), Number(summary.answered))
                               : absl::StrFormat("%s calls/s answered", Number(summary.answered));
  std::vector<Row> rows = {
      {"calls", calls},
      {"rate", rate},
      {"throughput", absl::StrFormat("%s images/s, %s tokens/s, %s/s sent", Number(summary.images),
                                     Number(summary.tokens), FormatBytes(static_cast<uint64_t>(summary.sent_bytes)))}};
  if (summary.batch_inputs.has_value()) {
    rows.push_back(
        {"batches", absl::StrFormat("%.1f inputs: the mean of what a call ran with", *summary.batch_inputs)});
  }
  return absl::StrCat(Table(rows, "l"), "\n");
}

std::string Latencies(const BenchFlags& flags, const Summary& summary) {
  if (summary.succeeded == 0) return "";
  std::vector<Row> rows = {LatencyHeader("LATENCY, ms")};
  if (flags.rate > 0) rows.push_back(LatencyRow("from the schedule", summary.from_schedule));
  rows.push_back(LatencyRow("from the sending", summary.from_send));
  rows.push_back(LatencyRow("  in the server", summary.server_total));
  rows.push_back(LatencyRow("    preprocess", summary.server_preprocess));
  rows.push_back(LatencyRow("    queue", summary.server_queue));
  rows.push_back(LatencyRow("    compute", summary.server_compute));
  rows.push_back(LatencyRow("  outside of it", summary.outside_server));
  rows.push_back(LatencyRow(flags.rate > 0 ? "sent late by" : "sent after an answer by", summary.send_lag));
  if (summary.sizes.size() > 1) {
    rows.push_back({});
    rows.push_back({flags.rate > 0 ? "BY SIZE, from the schedule" : "BY SIZE, from the sending"});
    for (const SizeSummary& size : summary.sizes) rows.push_back(LatencyRow(SizeName(size.size), size.latency));
    rows.push_back({"BY SIZE, in the server"});
    for (const SizeSummary& size : summary.sizes) rows.push_back(LatencyRow(SizeName(size.size), size.server_total));
  }
  return Table(rows, "lr");
}

// Which of the table's percentiles are missing, and what they would need.
std::string Unsupported(const Summary& summary) {
  int64_t fewest = summary.from_send.count;
  for (const SizeSummary& size : summary.sizes) fewest = std::min(fewest, size.latency.count);
  std::vector<std::string> needs;
  for (const Percentile& percentile : kPercentiles) {
    if (fewest >= ValuesNeeded(percentile)) continue;
    needs.push_back(absl::StrCat(percentile.name, " needs ", ValuesNeeded(percentile)));
  }
  if (needs.empty() || summary.succeeded == 0) return "";
  return absl::StrCat("-: too few calls to tell (", kValuesBeyond,
                      " must lie beyond a percentile: ", absl::StrJoin(needs, ", "), ")\n");
}

std::string Errors(const Summary& summary) {
  if (summary.failures.empty()) return "";
  std::vector<Row> rows = {{"COUNT", "ERROR", "AFTER: p50", "p99", "MAX ms", "THE FIRST ONE'S MESSAGE"}};
  for (const FailureSummary& failures : summary.failures) {
    const LatencySummary& after = failures.from_send;
    rows.push_back({absl::StrCat(after.count), absl::StatusCodeToString(failures.example.code()),
                    MillisecondsOrDash(after.percentiles_ns[0]), MillisecondsOrDash(after.percentiles_ns[2]),
                    Milliseconds(static_cast<double>(after.max_ns)),
                    Printable(std::string(failures.example.message()))});
  }
  return absl::StrCat("\n", Table(rows, "rlrrrl"));
}

}  // namespace

std::string ReportText(const BenchFlags& flags, const v1::Model& model, const Summary& summary) {
  std::string text = absl::StrCat(Heading(flags, model, summary), Counts(flags, summary), Latencies(flags, summary),
                                  Unsupported(summary), Errors(summary));
  for (const std::string& warning : summary.warnings) absl::StrAppend(&text, "\n! ", warning, "\n");
  if (flags.rate == 0) {
    absl::StrAppend(
        &text,
        "\nA closed loop sends nothing while it waits, so that a stall costs it few calls and hardly shows. "
        "What\ncallers of their own mind would meet at a given rate is seen with --rate.\n");
  }
  return text;
}

}  // namespace lion::bench
