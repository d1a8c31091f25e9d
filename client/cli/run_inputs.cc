#include "client/cli/run_inputs.h"

#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/connection.h"
#include "client/cli/text.h"

namespace lion {
namespace {

std::string WhatWasLeft(const BulkSummary& summary, const char* unit) {
  if (summary.not_read) return "stopped: text files were not read to their end";
  return absl::StrCat("stopped: ", summary.not_sent, " of ", summary.inputs, " ", unit, " were not sent");
}

}  // namespace

InputSource SourceOf(const InputFlags& flags) {
  return InputSource(
      {ExpandFiles(flags.images, std::cin), flags.texts, flags.text_files, flags.pairs, flags.skip_empty});
}

BulkOptions BulkOptionsFor(const InputFlags& flags) {
  BulkOptions options;
  if (flags.images.empty()) options.max_inputs = 64;  // a text is less work than an image
  return options;
}

std::optional<StreamCallOptions> StreamFor(const InputFlags& flags, const InputSource& source,
                                           const BulkOptions& options) {
  const std::optional<size_t> total = source.total();
  if (total.has_value() && *total <= static_cast<size_t>(options.max_inputs)) return std::nullopt;
  StreamCallOptions stream;
  stream.timeout = std::chrono::milliseconds(flags.server.timeout_ms);
  return stream;
}

const char* UnitOf(const InputFlags& flags) {
  if (flags.texts.empty() && flags.text_files.empty()) return "files";
  return flags.images.empty() ? "texts" : "inputs";
}

int RunInputs(const InputFlags& flags, InputSource& source, const BulkOptions& options, Client& client,
              Transport& transport, ResultSink& sink, Console& console, BulkSummary& summary) {
  const auto deliver = [&](const BulkInput& input, const InputResult& result) {
    if (!result.status.ok() && !result.ended_run) {  // the error that ended the run is told once, below
      console.Message(absl::StrCat(Printable(NameOf(input)), ": ", ExplainError(result.status, flags.server.address)));
    }
    console.InputDone(result.status.ok());
    return sink.Add(input, result);
  };
  summary = RunBulk(
      source, options, transport, [&](std::chrono::milliseconds wait) { Pause(client, wait); }, deliver);
  absl::Status written = summary.delivery;
  if (written.ok()) written = sink.Finish();
  if (!written.ok()) {
    console.Message(absl::StrCat("stopped: ", std::string(written.message())));
    return 1;
  }
  if (source.skipped() > 0) {
    console.Message(
        absl::StrCat(source.skipped(), source.skipped() == 1 ? " empty line was" : " empty lines were", " skipped"));
  }
  if (!summary.stopped.ok()) {
    console.Message(ExplainError(summary.stopped, flags.server.address));
    if (summary.not_sent > 0 || summary.not_read) console.Message(WhatWasLeft(summary, UnitOf(flags)));
  }
  return summary.failed == 0 && !summary.not_read ? 0 : 1;
}

}  // namespace lion
