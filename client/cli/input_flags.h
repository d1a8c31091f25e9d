// The flags of the commands that send images and texts to a server, and what they share with others.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "client/cli/commands.h"

namespace lion {

void AddServerFlags(CLI::App* command, ServerFlags& flags, int64_t timeout_ms);

struct InputCommands {
  InputFlags classify, embed, fill_mask, tokenize, similar;
  std::string embed_output;
};

// Adds the five commands to `app`; the one that is given runs while `app` parses, and leaves its `exit_status`.
// `commands` and `exit_status` must outlive `app`.
void AddInputCommands(CLI::App& app, InputCommands& commands, int& exit_status);

}  // namespace lion
