// The smallest HTTP client.
#pragma once

#include <string>

namespace lion::testing {

// The whole answer to GET `path` of a server on this machine, head included; "no connection" without one.
std::string HttpGet(int port, const std::string& path);

}  // namespace lion::testing
