#include "client/cli/connection.h"

#include <cstdio>
#include <thread>

namespace lion {

absl::StatusOr<std::unique_ptr<Client>> Connect(const ServerFlags& flags) {
  ClientOptions options;
  options.address = flags.address;
  options.timeout = std::chrono::milliseconds(flags.timeout_ms);
  options.max_message_bytes = (int64_t{1} << 31) - 1;  // one image may become many rows of tokens
  return Client::Create(options);
}

void Pause(Client& client, std::chrono::milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  client.WaitForConnection(wait);
  std::this_thread::sleep_until(end);
}

int Fail(const std::string& message) {
  std::fprintf(stderr, "lion: %s\n", message.c_str());
  return 1;
}

}  // namespace lion
