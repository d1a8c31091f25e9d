// A few pages over HTTP, for those who watch the server.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace lion {

struct HttpPage {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET and HEAD for fixed paths, one request a connection, on one thread of its own. What strangers can take of
// the process is bounded: at most 64 connections (the rest wait in the kernel), 8 KiB of each, and none for longer than
// 5 s from the moment it was accepted, whatever it does. An answer waits for at most one page being made.
class HttpPages {
 public:
  // Path -> what makes the page; called on that thread, must not block.
  using Pages = std::map<std::string, std::function<HttpPage()>>;

  // `host`: a name or address, IPv6 with or without brackets. Port 0: any free one. UNAVAILABLE: the address cannot be
  // had, and why.
  static absl::StatusOr<std::unique_ptr<HttpPages>> Start(const std::string& host, int port, Pages pages);
  virtual ~HttpPages() = default;  // at once, whatever connections do
  virtual int port() const = 0;
};

}  // namespace lion
