#include "client/cli/connection.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "client/library/credentials.h"

namespace lion {

ClientOptions ClientOptionsFor(const ServerFlags& flags) {
  ClientOptions options;
  options.address = flags.address;
  options.timeout = std::chrono::milliseconds(flags.timeout_ms);
  options.max_message_bytes = (int64_t{1} << 31) - 1;  // one image may become many rows of tokens
  TlsOptions tls = {flags.tls_ca, flags.tls_cert, flags.tls_key, flags.tls_server_name};
  const bool any = !tls.ca_file.empty() || !tls.certificate_file.empty() || !tls.key_file.empty();
  if (flags.tls || any || !tls.server_name.empty()) options.tls = std::move(tls);
  options.token_file = flags.token_file;
  const char* token = std::getenv("LION_TOKEN");
  if (options.token_file.empty() && token != nullptr) options.token = token;
  return options;
}

absl::StatusOr<std::unique_ptr<Client>> Connect(const ServerFlags& flags) {
  const ClientOptions options = ClientOptionsFor(flags);
  const bool has_token = !options.token.empty() || !options.token_file.empty();
  if (has_token && !options.tls.has_value() && !IsThisMachine(options.address)) {
    std::fprintf(stderr, "lion: the token goes to %s in plaintext; --tls encrypts it\n", options.address.c_str());
  }
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
