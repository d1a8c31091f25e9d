// `lion classify`, `embed`, `fill-mask` and `tokenize`.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/connection.h"
#include "client/cli/json_lines.h"
#include "client/cli/run_inputs.h"
#include "client/cli/text_sinks.h"

namespace lion {
namespace {

// False where the server does not say.
bool IsRegression(Client& client, const std::string& name) {
  const auto model = client.GetModel(name, {.timeout = std::chrono::milliseconds(10'000)});
  if (!model.ok()) return false;
  for (const std::string& task : model->tasks()) {
    if (task == "regress") return true;
  }
  return false;
}

// A run whose results go to standard output. `make_sink` takes an OutputFile and the client; `make_transport` the
// client, the source and the options.
template <typename MakeSink, typename MakeTransport>
int RunToStandardOutput(const InputFlags& flags, const MakeSink& make_sink, const MakeTransport& make_transport) {
  const auto client = Connect(flags.server);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  auto output = OutputFile::Open("");
  if (!output.ok()) return Fail(std::string(output.status().message()));
  const std::unique_ptr<ResultSink> sink = make_sink(*std::move(output), **client);
  InputSource source = SourceOf(flags);
  Console console(source.total(), UnitOf(flags), !IsTerminal(1));
  const BulkOptions options = BulkOptionsFor(flags);
  auto transport = make_transport(client->get(), source, options);
  BulkSummary summary;
  return RunInputs(flags, source, options, **client, transport, *sink, console, summary);
}

void ReportMissingRows(const std::string& path, const BulkSummary& summary, const char* unit, Console& console) {
  const size_t rows = summary.inputs - summary.failed;
  if (rows == 0) {
    console.Message(absl::StrCat(path, " was not written: none of the ", unit, " succeeded"));
    return;
  }
  console.Message(absl::StrCat(path, " has ", rows, " rows for ", summary.inputs, " ", unit,
                               ": those that failed have none, so that row numbers are not their numbers; "
                               "--output FILE.jsonl keeps the names"));
}

}  // namespace

int RunClassify(const InputFlags& flags) {
  return RunToStandardOutput(
      flags,
      [&flags](std::unique_ptr<OutputFile> output, Client& client) {
        if (flags.json) return MakeJsonLines(std::move(output), ClassifyJson);
        return MakeClassifyTable(std::move(output), flags.call.raw_scores,
                                 [&] { return IsRegression(client, flags.call.model); });
      },
      [&flags](Client* client, const InputSource& source, const BulkOptions& options) {
        return ClassifyTransport(client, flags.call, StreamFor(flags, source, options));
      });
}

int RunFillMask(const InputFlags& flags) {
  return RunToStandardOutput(
      flags,
      [&flags](std::unique_ptr<OutputFile> output, Client&) {
        return flags.json ? MakeJsonLines(std::move(output), FillMaskJson) : MakeFillMaskTable(std::move(output));
      },
      [&flags](Client* client, const InputSource&, const BulkOptions&) {
        return FillMaskTransport(client, flags.call);
      });
}

int RunTokenize(const InputFlags& flags) {
  return RunToStandardOutput(
      flags,
      [&flags](std::unique_ptr<OutputFile> output, Client&) {
        return flags.json ? MakeJsonLines(std::move(output), TokenizeJson) : MakeTokenTable(std::move(output));
      },
      [&flags](Client* client, const InputSource&, const BulkOptions&) {
        return TokenizeTransport(client, flags.call);
      });
}

int RunEmbed(const InputFlags& flags, const std::string& path) {
  const bool per_token = flags.call.pooling == v1::POOLING_NONE;
  const bool npy = absl::EndsWith(path, ".npy");
  if (npy && per_token) {
    return Fail(
        "--pooling none gives as many rows as each input has tokens, which one .npy array cannot hold: use "
        "--output FILE.jsonl");
  }
  if (!npy && !path.empty() && !absl::EndsWith(path, ".jsonl")) {
    return Fail(absl::StrCat("--output ", path, ": expected a name that ends in .npy or .jsonl"));
  }
  const auto client = Connect(flags.server);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  auto output = OutputFile::Open(path);
  if (!output.ok()) return Fail(std::string(output.status().message()));
  const auto format = [per_token](const BulkInput& input, const InputResult& result) {
    return EmbedJson(input, result, per_token);
  };
  const auto sink = npy ? MakeNpy(*std::move(output)) : MakeJsonLines(*std::move(output), format);

  InputSource source = SourceOf(flags);
  Console console(source.total(), UnitOf(flags), !path.empty() || !IsTerminal(1));
  BulkOptions options = BulkOptionsFor(flags);
  std::optional<StreamCallOptions> stream = StreamFor(flags, source, options);
  if (per_token) {
    options.max_inputs = 1;  // a high-resolution image alone can become 200 MB of rows
    options.max_calls = 2;
    stream.reset();  // where they would hold up all others
  }
  EmbedTransport transport(client->get(), flags.call, stream);
  BulkSummary summary;
  const int exit_status = RunInputs(flags, source, options, **client, transport, *sink, console, summary);
  if (npy && summary.failed > 0 && summary.delivery.ok()) ReportMissingRows(path, summary, UnitOf(flags), console);
  return exit_status;
}

}  // namespace lion
