// What the commands that talk to a server begin with, and how they fail.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/commands.h"
#include "lion/client.h"

namespace lion {

// Warns where a token would leave this machine in plaintext.
absl::StatusOr<std::unique_ptr<Client>> Connect(const ServerFlags& flags);

// What Connect makes a client of, without the warning.
ClientOptions ClientOptionsFor(const ServerFlags& flags);

// Lets `wait` pass, and uses it to connect again where the connection was lost.
void Pause(Client& client, std::chrono::milliseconds wait);

// Says so on standard error; returns the exit status 1.
int Fail(const std::string& message);

}  // namespace lion
