#include "tests/support/http_get.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace lion::testing {

std::string HttpGet(int port, const std::string& path) {
  const int socket_fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket_fd);
    return "no connection";
  }
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  std::string answer;
  if (::send(socket_fd, request.data(), request.size(), 0) != static_cast<ssize_t>(request.size()))
    answer = "not sent: ";
  char buffer[4096];
  for (ssize_t size = 0; (size = ::recv(socket_fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, size);
  ::close(socket_fd);
  return answer;
}

}  // namespace lion::testing
