#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/bulk.h"
#include "client/cli/commands.h"
#include "client/cli/connection.h"
#include "client/cli/console.h"
#include "client/cli/json_lines.h"
#include "client/cli/sinks.h"
#include "client/cli/text.h"

namespace lion {
namespace {

// More files than one call takes share a stream.
std::optional<StreamCallOptions> StreamFor(const ImageFlags& flags, const std::vector<InputFile>& files,
                                           const BulkOptions& options) {
  if (files.size() <= static_cast<size_t>(options.max_inputs)) return std::nullopt;
  StreamCallOptions stream;
  stream.timeout = std::chrono::milliseconds(flags.server.timeout_ms);
  return stream;
}

// Runs all files through `transport` into `sink`, with errors and progress on standard error.
int RunFiles(const ImageFlags& flags, const std::vector<InputFile>& files, const BulkOptions& options, Client& client,
             Transport& transport, ResultSink& sink, Console& console, BulkSummary& summary) {
  const auto deliver = [&](size_t index, const ImageResult& result) {
    const InputFile& file = files[index];
    if (!result.status.ok() && !result.ended_run) {  // the error that ended the run is told once, below
      console.Message(absl::StrCat(Printable(file.path), ": ", ExplainError(result.status, flags.server.address)));
    }
    console.FileDone(result.status.ok());
    return sink.Add(file.path, result);
  };
  summary = RunBulk(
      files, options, transport, [&](std::chrono::milliseconds wait) { Pause(client, wait); }, deliver);
  absl::Status written = summary.delivery;
  if (written.ok()) written = sink.Finish();
  if (!written.ok()) {
    console.Message(absl::StrCat("stopped: ", std::string(written.message())));
    return 1;
  }
  if (!summary.stopped.ok()) {
    console.Message(ExplainError(summary.stopped, flags.server.address));
    if (summary.not_sent > 0) {
      console.Message(absl::StrCat("stopped: ", summary.not_sent, " of ", files.size(), " files were not sent"));
    }
  }
  return summary.failed == 0 ? 0 : 1;
}

}  // namespace

int RunClassify(const ImageFlags& flags) {
  const auto client = Connect(flags.server);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  auto output = OutputFile::Open("");
  if (!output.ok()) return Fail(std::string(output.status().message()));
  const auto sink = flags.json ? MakeClassifyJsonLines(*std::move(output))
                               : MakeClassifyTable(*std::move(output), flags.call.raw_scores);
  const std::vector<InputFile> files = ExpandFiles(flags.arguments, std::cin);
  Console console(files.size(), !IsTerminal(1));
  const BulkOptions options;
  ClassifyTransport transport(client->get(), flags.call, StreamFor(flags, files, options));
  BulkSummary summary;
  return RunFiles(flags, files, options, **client, transport, *sink, console, summary);
}

int RunEmbed(const ImageFlags& flags, const std::string& path) {
  const bool per_token = flags.call.pooling == v1::POOLING_NONE;
  const bool npy = absl::EndsWith(path, ".npy");
  if (npy && per_token) {
    return Fail(
        "--pooling none gives as many rows as each image has tokens, which one .npy array cannot hold: use "
        "--output FILE.jsonl");
  }
  if (!npy && !path.empty() && !absl::EndsWith(path, ".jsonl")) {
    return Fail(absl::StrCat("--output ", path, ": expected a name that ends in .npy or .jsonl"));
  }
  const auto client = Connect(flags.server);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  auto output = OutputFile::Open(path);
  if (!output.ok()) return Fail(std::string(output.status().message()));
  const auto sink = npy ? MakeNpy(*std::move(output)) : MakeEmbedJsonLines(*std::move(output), per_token);

  const std::vector<InputFile> files = ExpandFiles(flags.arguments, std::cin);
  Console console(files.size(), !path.empty() || !IsTerminal(1));
  BulkOptions options;
  std::optional<StreamCallOptions> stream = StreamFor(flags, files, options);
  if (per_token) {
    options.max_inputs = 1;  // a high-resolution image alone can become 200 MB of rows
    options.max_calls = 2;
    stream.reset();  // where they would hold up all others
  }
  EmbedTransport transport(client->get(), flags.call, stream);
  BulkSummary summary;
  const int exit_status = RunFiles(flags, files, options, **client, transport, *sink, console, summary);
  if (npy && summary.failed > 0 && summary.delivery.ok()) {
    const size_t rows = files.size() - summary.failed;
    console.Message(rows == 0 ? absl::StrCat(path, " was not written: no file succeeded")
                              : absl::StrCat(path, " has ", rows, " rows for ", files.size(),
                                             " files: those that failed have none, so that row numbers are not file "
                                             "numbers; --output FILE.jsonl keeps the names"));
  }
  return exit_status;
}

int RunSimilar(const ImageFlags& flags) {
  const auto client = Connect(flags.server);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  std::vector<InputFile> files;
  for (const std::string& path : flags.arguments) files.push_back({path, absl::OkStatus()});
  EmbedTransport transport(client->get(), flags.call);
  std::vector<std::vector<float>> embeddings;
  const auto deliver = [&](size_t index, const ImageResult& result) {
    if (result.status.ok()) {
      embeddings.push_back(result.embedding);
    } else if (!result.ended_run) {
      Fail(absl::StrCat(Printable(files[index].path), ": ", ExplainError(result.status, flags.server.address)));
    }
    return absl::OkStatus();
  };
  const BulkSummary summary = RunBulk(
      files, BulkOptions(), transport, [&](std::chrono::milliseconds wait) { Pause(**client, wait); }, deliver);
  if (!summary.stopped.ok()) return Fail(ExplainError(summary.stopped, flags.server.address));
  if (summary.failed > 0) return 1;

  double dot = 0, norm_a = 0, norm_b = 0;
  const size_t dimensions = std::min(embeddings[0].size(), embeddings[1].size());
  for (size_t i = 0; i < dimensions; ++i) {
    const double a = embeddings[0][i], b = embeddings[1][i];
    dot += a * b;
    norm_a += a * a;
    norm_b += b * b;
  }
  if (norm_a == 0 || norm_b == 0) {
    return Fail(
        absl::StrCat(Printable(files[norm_a == 0 ? 0 : 1].path), ": the embedding is all zeros, which points nowhere"));
  }
  const double cosine = std::clamp(dot / std::sqrt(norm_a * norm_b), -1.0, 1.0);
  if (!flags.json) return Print(absl::StrFormat("%.6f\n", cosine));
  return Print(absl::StrCat(SimilarJson(files[0].path, files[1].path, static_cast<float>(cosine)), "\n"));
}

}  // namespace lion
