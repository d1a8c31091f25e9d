// The smallest HTTP client.
#pragma once

#include <string>
#include <utility>

namespace lion::testing {

// Closed with its object.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// To a port of this machine; descriptor -1: no connection.
Socket ConnectTo(int port);

// All that comes back for `request`; "no connection" without one.
std::string HttpExchange(int port, const std::string& request);

// The whole answer to GET `path`, head included.
std::string HttpGet(int port, const std::string& path);

}  // namespace lion::testing
