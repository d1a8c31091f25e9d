// Certificates made for a test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace lion::testing {

struct Identity {
  std::string certificate;  // PEM
  std::string key;          // PEM, not encrypted
};

struct Validity {
  int64_t from_s = -3600;  // relative to now
  int64_t until_s = 3600;
};

// Signs what it is asked to.
class Authority {
 public:
  explicit Authority(const std::string& name);
  ~Authority();

  const std::string& certificate() const { return own_.certificate; }
  // For "localhost" and 127.0.0.1, with `name` as its subject. Each has a key and a serial number of its own.
  Identity Issue(const std::string& name, Validity validity = {}) const;

 private:
  struct Keys;
  std::unique_ptr<Keys> keys_;
  Identity own_;
};

// `key`, in PEM, with a password.
std::string Encrypted(const std::string& key);

}  // namespace lion::testing
