#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/connection.h"
#include "client/cli/console.h"
#include "client/cli/json_lines.h"
#include "client/cli/run_inputs.h"
#include "client/cli/text.h"

namespace lion {
namespace {

constexpr size_t kTitleColumns = 60;

struct Embedded {
  std::string title;  // an image's path, or the text
  std::vector<float> values;
  double norm = 0;
};

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double Cosine(const Embedded& a, const Embedded& b) {
  return std::clamp(Dot(a.values, b.values) / (a.norm * b.norm), -1.0, 1.0);
}

std::string AllPairsJson(const std::vector<Embedded>& all) {
  std::string lines;
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = a + 1; b < all.size(); ++b) {
      const auto cosine = static_cast<float>(Cosine(all[a], all[b]));
      absl::StrAppend(&lines, SimilarJson(all[a].title, all[b].title, cosine), "\n");
    }
  }
  return lines;
}

// Columns by number, since texts are too wide for headings.
std::string CosineTable(const std::vector<Embedded>& all) {
  std::vector<std::vector<std::string>> rows(all.size() + 1);
  rows[0] = {"", ""};
  for (size_t a = 0; a < all.size(); ++a) {
    rows[0].push_back(absl::StrCat(a + 1));
    rows[a + 1] = {absl::StrCat(a + 1), Printable(Shorten(all[a].title, kTitleColumns))};
    for (const Embedded& b : all) rows[a + 1].push_back(absl::StrFormat("%.4f", Cosine(all[a], b)));
  }
  std::vector<size_t> widths;
  return FormatTable(rows, "rlr", widths);
}

}  // namespace

int RunSimilar(const InputFlags& flags) {
  const auto client = Connect(flags.server);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  InputLists lists;
  for (const std::string& path : flags.images) lists.images.push_back({path, absl::OkStatus()});
  lists.texts = flags.texts;
  InputSource source(std::move(lists));
  EmbedTransport transport(client->get(), flags.call);
  std::vector<Embedded> all;
  const auto deliver = [&](const BulkInput& input, const InputResult& result) {
    if (result.status.ok()) {
      all.push_back({input.is_text() ? TextOf(input) : input.source, result.embedding,
                     std::sqrt(Dot(result.embedding, result.embedding))});
    } else if (!result.ended_run) {
      Fail(absl::StrCat(Printable(NameOf(input)), ": ", ExplainError(result.status, flags.server.address)));
    }
    return absl::OkStatus();
  };
  const BulkSummary summary = RunBulk(
      source, BulkOptions(), transport, [&](std::chrono::milliseconds wait) { Pause(**client, wait); }, deliver);
  if (!summary.stopped.ok()) return Fail(ExplainError(summary.stopped, flags.server.address));
  if (summary.failed > 0) return 1;
  for (const Embedded& one : all) {
    if (one.norm == 0) {
      return Fail(absl::StrCat(Printable(one.title), ": the embedding is all zeros, which points nowhere"));
    }
  }
  if (flags.json) return Print(AllPairsJson(all));
  if (all.size() == 2) return Print(absl::StrFormat("%.6f\n", Cosine(all[0], all[1])));
  return Print(CosineTable(all));
}

}  // namespace lion
