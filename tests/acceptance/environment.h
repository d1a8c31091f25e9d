// The size of a run, from the environment: small in the test run, full in scripts/acceptance.
#pragma once

#include <cstdlib>

namespace lion::testing {

inline int FromEnvironment(const char* name, int fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::atoi(value);
}

}  // namespace lion::testing
