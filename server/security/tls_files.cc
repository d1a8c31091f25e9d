#include "server/security/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/security/read_file.h"

namespace lion {
namespace {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;

Bio BioOf(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// What OpenSSL says last, and an empty queue for what comes next.
std::string TakeReason() {
  const unsigned long code = ERR_peek_last_error();  // NOLINT(google-runtime-int): OpenSSL's type
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  std::string text = reason == nullptr ? "no reason given" : reason;
  ERR_clear_error();
  return text;
}

absl::Status Failure(const std::string& flag, const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(flag, " ", path, ": ", what));
}

// A key that wants a password must not make OpenSSL ask for it on the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& flag, const std::string& path,
                                                          const std::string& pem) {
  ERR_clear_error();
  const Bio bio = BioOf(pem);
  std::vector<Certificate> certificates;
  while (Certificate certificate{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    certificates.push_back(std::move(certificate));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = TakeReason();
  if (!at_end) {
    return Failure(flag, path, absl::StrCat("certificate ", certificates.size() + 1, " cannot be read: ", reason));
  }
  if (certificates.empty()) {
    return Failure(flag, path, "holds no certificate: want PEM, -----BEGIN CERTIFICATE-----");
  }
  return certificates;
}

absl::StatusOr<Key> ReadKey(const std::string& path, const std::string& pem) {
  ERR_clear_error();
  bool asked = false;
  Key key(PEM_read_bio_PrivateKey(BioOf(pem).get(), nullptr, NoPassword, &asked));
  const std::string reason = TakeReason();
  if (key != nullptr) return key;
  if (asked) return Failure("--tls-key", path, "the key is encrypted: want one without a password");
  return Failure("--tls-key", path, absl::StrCat("holds no private key: want PEM (", reason, ")"));
}

std::string NameOf(const X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const auto length = static_cast<size_t>(BIO_get_mem_data(bio.get(), &text));
  return length == 0 ? "without a subject" : std::string(text, length);
}

std::string DateOf(const ASN1_TIME* time) {
  std::tm parts = {};
  char text[32] = "";
  if (ASN1_TIME_to_tm(time, &parts) == 1) std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

// As gRPC will set up a server's context: what OpenSSL refuses there (a key that is too short) is found here.
absl::Status TryInContext(const TlsPaths& paths, const std::vector<Certificate>& chain, EVP_PKEY* key) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return absl::InternalError(absl::StrCat("OpenSSL: ", TakeReason()));
  if (SSL_CTX_use_certificate(context.get(), chain.front().get()) != 1) {
    return Failure("--tls-cert", paths.certificate, absl::StrCat("cannot be used: ", TakeReason()));
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) != 1) {
      return Failure("--tls-cert", paths.certificate,
                     absl::StrCat("certificate ", i + 1, " cannot be used: ", TakeReason()));
    }
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1 || SSL_CTX_check_private_key(context.get()) != 1) {
    return Failure("--tls-key", paths.key,
                   absl::StrCat("is not the key of the first certificate in --tls-cert ", paths.certificate, " (",
                                NameOf(chain.front().get()), "): ", TakeReason()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsPaths& paths) {
  TlsFiles files;
  absl::StatusOr<std::string> content = ReadSecretFile("--tls-cert", paths.certificate);
  if (!content.ok()) return content.status();
  files.certificate_chain = *std::move(content);
  content = ReadSecretFile("--tls-key", paths.key);
  if (!content.ok()) return content.status();
  files.private_key = *std::move(content);
  if (paths.client_ca.empty()) return files;
  content = ReadSecretFile("--tls-client-ca", paths.client_ca);
  if (!content.ok()) return content.status();
  files.client_ca = *std::move(content);
  return files;
}

absl::Status CheckTlsFiles(const TlsPaths& paths, TlsFiles* files) {
  const absl::StatusOr<std::vector<Certificate>> chain =
      ReadCertificates("--tls-cert", paths.certificate, files->certificate_chain);
  if (!chain.ok()) return chain.status();
  const absl::StatusOr<Key> key = ReadKey(paths.key, files->private_key);
  if (!key.ok()) return key.status();
  if (!paths.client_ca.empty()) {
    absl::Status authorities = ReadCertificates("--tls-client-ca", paths.client_ca, files->client_ca).status();
    if (!authorities.ok()) return authorities;
  }
  if (absl::Status status = TryInContext(paths, *chain, key->get()); !status.ok()) return status;
  const X509* own = chain->front().get();
  const std::string expiry = DateOf(X509_get0_notAfter(own));
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0) {
    return Failure("--tls-cert", paths.certificate,
                   absl::StrCat("the certificate of ", NameOf(own), " expired on ", expiry));
  }
  files->summary = absl::StrCat(NameOf(own), ", valid until ", expiry);
  return absl::OkStatus();
}

}  // namespace lion
