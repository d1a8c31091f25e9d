#include "client/library/credentials.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lion {
namespace {

constexpr std::chrono::seconds kReadAgain(1);

absl::StatusOr<std::string> ReadFile(const char* option, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(absl::StrCat(option, " ", path, ": cannot be read"));
  }
  return content;
}

absl::StatusOr<std::string> ReadPem(const char* option, const std::string& path, const char* kind) {
  if (path.empty()) return std::string();
  absl::StatusOr<std::string> content = ReadFile(option, path);
  if (content.ok() && (!absl::StrContains(*content, "-----BEGIN ") || !absl::StrContains(*content, kind))) {
    return absl::InvalidArgumentError(absl::StrCat(option, " ", path, ": holds no ", kind, " in PEM"));
  }
  return content;
}

// gRPC itself would say so in a log, and that there is no address.
absl::Status CheckPair(const TlsOptions& tls, const std::string& certificate, const std::string& key) {
  if (certificate.empty()) return absl::OkStatus();
  const auto read = [](const std::string& pem, auto reader, auto free) {
    BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    // With an empty password, as gRPC does, so that nothing is asked for on the terminal.
    auto object =
        std::unique_ptr<std::remove_pointer_t<decltype(reader(bio, nullptr, nullptr, nullptr))>, decltype(free)>(
            reader(bio, nullptr, nullptr, const_cast<char*>("")), free);
    BIO_free(bio);
    return object;
  };
  const auto x509 = read(certificate, PEM_read_bio_X509, X509_free);
  const auto private_key = read(key, PEM_read_bio_PrivateKey, EVP_PKEY_free);
  const bool match = x509 != nullptr && private_key != nullptr && X509_check_private_key(x509.get(), private_key.get());
  ERR_clear_error();
  if (match) return absl::OkStatus();
  if (x509 == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("certificate_file ", tls.certificate_file, ": cannot be read"));
  }
  if (private_key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("key_file ", tls.key_file, ": cannot be read; expected a key in PEM without a password"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("key_file ", tls.key_file, ": is not the key of certificate_file ", tls.certificate_file));
}

absl::Status CheckToken(const std::string& token) {
  if (std::all_of(token.begin(), token.end(), [](char c) { return absl::ascii_isgraph(c); })) return absl::OkStatus();
  return absl::InvalidArgumentError("the token has other than visible ASCII characters");  // it is not shown
}

// The first token, as the server reads such a file.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadFile("token_file", path);
  if (!content.ok()) return content.status();
  for (absl::string_view line : absl::StrSplit(*content, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    std::string token(line);
    if (absl::Status status = CheckToken(token); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("token_file ", path, ": ", status.message()));
    }
    return token;
  }
  return absl::InvalidArgumentError(absl::StrCat("token_file ", path, ": holds no token"));
}

// Thread-safe.
class TokenSource {
 public:
  TokenSource(std::string token, std::string path) : path_(std::move(path)), token_(std::move(token)) {}

  std::string Token() {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (!path_.empty() && now - read_ >= kReadAgain) {
      read_ = now;
      // A file that is being replaced leaves the old one.
      if (absl::StatusOr<std::string> token = ReadToken(path_); token.ok()) token_ = *std::move(token);
    }
    return token_;
  }

 private:
  const std::string path_;
  std::mutex mutex_;
  std::string token_;
  std::chrono::steady_clock::time_point read_ = std::chrono::steady_clock::now();
};

class AddToken final : public grpc::experimental::Interceptor {
 public:
  explicit AddToken(TokenSource* source) : source_(source) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", absl::StrCat("Bearer ", source_->Token()));
    }
    methods->Proceed();
  }

 private:
  TokenSource* const source_;
};

// Lives as long as its channel.
class AddTokenFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  AddTokenFactory(std::string token, std::string path) : source_(std::move(token), std::move(path)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new AddToken(&source_);
  }

 private:
  TokenSource source_;
};

}  // namespace

bool IsThisMachine(const std::string& address) {
  return absl::StartsWith(address, "localhost") || absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "[::1]") || absl::StartsWith(address, "unix:");
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const ClientOptions& options) {
  if (!options.tls.has_value()) return grpc::InsecureChannelCredentials();
  const TlsOptions& tls = *options.tls;
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.key_file.empty() ? "a certificate without its key" : "a key without its certificate",
                     "; expected both or neither"));
  }
  absl::StatusOr<std::string> authorities = ReadPem("ca_file", tls.ca_file, "CERTIFICATE");
  if (!authorities.ok()) return authorities.status();
  absl::StatusOr<std::string> certificate = ReadPem("certificate_file", tls.certificate_file, "CERTIFICATE");
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = ReadPem("key_file", tls.key_file, "PRIVATE KEY");
  if (!key.ok()) return key.status();
  if (absl::Status status = CheckPair(tls, *certificate, *key); !status.ok()) return status;
  return grpc::SslCredentials({*std::move(authorities), *std::move(key), *std::move(certificate)});
}

absl::StatusOr<Interceptors> MakeTokenInterceptors(const ClientOptions& options) {
  Interceptors interceptors;
  std::string token = options.token;
  if (!options.token_file.empty()) {
    if (!token.empty()) return absl::InvalidArgumentError("both token and token_file are set; expected one of them");
    absl::StatusOr<std::string> read = ReadToken(options.token_file);
    if (!read.ok()) return read.status();
    token = *std::move(read);
  }
  if (token.empty()) return interceptors;
  if (absl::Status status = CheckToken(token); !status.ok()) return status;
  interceptors.push_back(std::make_unique<AddTokenFactory>(std::move(token), options.token_file));
  return interceptors;
}

}  // namespace lion
