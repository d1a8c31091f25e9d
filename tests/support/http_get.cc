#include "tests/support/http_get.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace lion::testing {

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Socket ConnectTo(int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return Socket(descriptor);
  ::close(descriptor);
  return Socket(-1);
}

std::string HttpExchange(int port, const std::string& request) {
  const Socket socket = ConnectTo(port);
  if (socket.descriptor() < 0) return "no connection";
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t size = ::send(socket.descriptor(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) break;
    sent += static_cast<size_t>(size);
  }
  std::string answer;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::recv(socket.descriptor(), buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(size));
  }
  return answer;
}

std::string HttpGet(int port, const std::string& path) {
  return HttpExchange(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

}  // namespace lion::testing
