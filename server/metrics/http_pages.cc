#include "server/metrics/http_pages.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr size_t kMaxConnections = 64;
constexpr size_t kMaxHeadBytes = 8192;
constexpr int kMostRest = 16;  // pieces of as much that are read and thrown away
constexpr std::chrono::seconds kMaxLife(5);
constexpr std::chrono::milliseconds kAcceptPause(100);  // where the process has no file descriptor left

using Clock = std::chrono::steady_clock;

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

const char* Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

std::string Response(const HttpPage& page, bool with_body) {
  return absl::StrCat("HTTP/1.1 ", page.status, " ", Reason(page.status), "\r\nContent-Type: ", page.content_type,
                      "\r\nContent-Length: ", page.body.size(), page.status == 405 ? "\r\nAllow: GET, HEAD" : "",
                      "\r\nConnection: close\r\n\r\n", with_body ? page.body : "");
}

// `head`: up to its empty line. A path is what stands before a '?'.
std::string Answer(std::string_view head, const HttpPages::Pages& pages) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t method_end = line.find(' '), target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end <= method_end ||
      line.substr(target_end + 1).substr(0, 5) != "HTTP/") {
    return Response({.status = 400, .body = "not HTTP\n"}, true);
  }
  const std::string_view method = line.substr(0, method_end);
  if (method != "GET" && method != "HEAD") return Response({.status = 405, .body = "GET or HEAD\n"}, true);
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  const auto page = pages.find(std::string(target.substr(0, target.find('?'))));
  const bool with_body = method == "GET";
  if (page == pages.end()) {
    std::string known;
    for (const auto& [path, make] : pages) absl::StrAppend(&known, path, "\n");
    return Response({.status = 404, .body = absl::StrCat("there are:\n", known)}, with_body);
  }
  return Response(page->second(), with_body);
}

// One request and its answer.
class Connection {
 public:
  Connection(Descriptor socket, Clock::time_point deadline) : socket_(std::move(socket)), deadline_(deadline) {}

  int descriptor() const { return socket_.get(); }
  Clock::time_point deadline() const { return deadline_; }
  int16_t events() const { return answered_ ? POLLOUT : POLLIN; }

  // Whatever can be done without waiting. False: it is over.
  bool Proceed(const HttpPages::Pages& pages) {
    if (!answered_ && !Read(pages)) return false;
    return !answered_ || Write();
  }

 private:
  bool Read(const HttpPages::Pages& pages) {
    char buffer[kMaxHeadBytes];
    const ssize_t size = ::recv(socket_.get(), buffer, sizeof(buffer) - bytes_.size(), 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) return false;
    bytes_.append(buffer, static_cast<size_t>(size));
    const size_t end = bytes_.find("\r\n\r\n");
    if (end != std::string::npos) {
      bytes_ = Answer(std::string_view(bytes_).substr(0, end), pages);
    } else if (bytes_.size() == kMaxHeadBytes) {
      bytes_ = Response({.status = 431, .body = absl::StrCat("over ", kMaxHeadBytes, " bytes\n")}, true);
    } else {
      return true;
    }
    answered_ = true;
    return true;
  }

  bool Write() {
    while (sent_ < bytes_.size()) {
      const ssize_t size = ::send(socket_.get(), bytes_.data() + sent_, bytes_.size() - sent_, MSG_NOSIGNAL);
      if (size < 0) return errno == EAGAIN || errno == EINTR;
      sent_ += static_cast<size_t>(size);
    }
    // A client that has sent more than was read would see the connection reset before the answer.
    ::shutdown(socket_.get(), SHUT_WR);
    char rest[kMaxHeadBytes];
    for (int i = 0; i<kMostRest&& ::recv(socket_.get(), rest, sizeof(rest), 0)> 0; ++i) {
    }
    return false;
  }

  Descriptor socket_;
  const Clock::time_point deadline_;
  bool answered_ = false;
  std::string bytes_;  // read, then to be sent
  size_t sent_ = 0;
};

class HttpPagesImpl final : public HttpPages {
 public:
  HttpPagesImpl(Descriptor listener, Descriptor stop, int port, Pages pages)
      : listener_(std::move(listener)), stop_(std::move(stop)), port_(port), pages_(std::move(pages)), thread_([this] {
          Loop();
        }) {}

  ~HttpPagesImpl() override {
    const uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  int port() const override { return port_; }

 private:
  void Loop() {
    std::list<Connection> connections;
    Clock::time_point accept_after = Clock::now();
    while (true) {
      const Clock::time_point now = Clock::now();
      connections.remove_if([now](const Connection& connection) { return connection.deadline() <= now; });
      const bool accepting = connections.size() < kMaxConnections && accept_after <= now;
      std::vector<pollfd> waits = {{stop_.get(), POLLIN, 0}, {accepting ? listener_.get() : -1, POLLIN, 0}};
      Clock::time_point wake = accept_after > now ? accept_after : Clock::time_point::max();
      for (const Connection& connection : connections) {
        waits.push_back({connection.descriptor(), connection.events(), 0});
        wake = std::min(wake, connection.deadline());
      }
      const int timeout_ms = wake == Clock::time_point::max()
                                 ? -1
                                 : static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wake - now).count());
      if (::poll(waits.data(), waits.size(), timeout_ms) <= 0) continue;
      if (waits[0].revents != 0) return;
      auto connection = connections.begin();
      for (size_t i = 2; i < waits.size(); ++i) {
        const auto current = connection++;
        if (waits[i].revents != 0 && !current->Proceed(pages_)) connections.erase(current);
      }
      if (waits[1].revents == 0) continue;
      const int accepted = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (accepted >= 0) {
        connections.emplace_back(Descriptor(accepted), Clock::now() + kMaxLife);
      } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        accept_after = Clock::now() + kAcceptPause;
      }
    }
  }

  const Descriptor listener_;
  const Descriptor stop_;
  const int port_;
  const Pages pages_;
  std::thread thread_;
};

// The first of the host's addresses that can be had.
absl::StatusOr<Descriptor> Listen(const std::string& host, int port) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &wanted, &found); error != 0) {
    return absl::UnavailableError(::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Descriptor socket(::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    if (socket.get() >= 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (socket.get() >= 0 && ::bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0) {
      return socket;
    }
    error = errno;
  }
  return absl::UnavailableError(std::strerror(error));
}

int PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpPages>> HttpPages::Start(const std::string& host, int port, Pages pages) {
  absl::StatusOr<Descriptor> listener = Listen(host, port);
  if (!listener.ok()) return listener.status();
  Descriptor stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stop.get() < 0) return absl::UnavailableError(std::strerror(errno));
  const int listening = PortOf(listener->get());
  return std::make_unique<HttpPagesImpl>(*std::move(listener), std::move(stop), listening, std::move(pages));
}

}  // namespace lion
