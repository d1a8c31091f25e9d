// What the commands that send many inputs share.
#pragma once

#include <memory>
#include <optional>

#include "client/cli/bulk.h"
#include "client/cli/commands.h"
#include "client/cli/console.h"
#include "client/cli/sinks.h"
#include "client/cli/stream_calls.h"
#include "lion/client.h"

namespace lion {

// All that the flags name; "-" among the images is read to its end.
InputSource SourceOf(const InputFlags& flags);

BulkOptions BulkOptionsFor(const InputFlags& flags);

// Of inputs that are more than one call takes, or may be.
std::optional<StreamCallOptions> StreamFor(const InputFlags& flags, const InputSource& source,
                                           const BulkOptions& options);

// "files" where the flags name images only.
const char* UnitOf(const InputFlags& flags);

// Runs all inputs through `transport` into `sink`, with errors and progress on standard error. Returns the exit status.
int RunInputs(const InputFlags& flags, InputSource& source, const BulkOptions& options, Client& client,
              Transport& transport, ResultSink& sink, Console& console, BulkSummary& summary);

}  // namespace lion
