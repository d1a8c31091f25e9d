#include "tests/support/certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>

namespace lion::testing {
namespace {

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "OpenSSL: %s failed\n", what);
  std::abort();
}

template <class Write>
std::string Pem(const Write& write) {
  BIO* bio = BIO_new(BIO_s_mem());
  Check(write(bio) == 1, "writing PEM");
  char* text = nullptr;
  const auto length = static_cast<size_t>(BIO_get_mem_data(bio, &text));
  std::string pem(text, length);
  BIO_free(bio);
  return pem;
}

std::string PemOf(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
std::string PemOf(EVP_PKEY* key) {
  return Pem([&](BIO* bio) { return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

void Extend(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  Check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, value);
  X509_EXTENSION_free(extension);
}

// Null `issuer`: signed by itself, an authority.
X509* Make(const std::string& name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key, Validity validity) {
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  uint64_t serial = 0;
  Check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1, "RAND_bytes");
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), validity.from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), validity.until_s);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509* const signer = issuer == nullptr ? certificate : issuer;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  Extend(certificate, signer, NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
  if (issuer != nullptr) Extend(certificate, signer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  Check(X509_sign(certificate, issuer == nullptr ? key : issuer_key, EVP_sha256()) > 0, "X509_sign");
  return certificate;
}

}  // namespace

struct Authority::Keys {
  ~Keys() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  X509* certificate = nullptr;
  EVP_PKEY* key = EVP_EC_gen("P-256");
};

Authority::Authority(const std::string& name) : keys_(std::make_unique<Keys>()) {
  keys_->certificate = Make(name, keys_->key, nullptr, nullptr, {});
  own_ = {PemOf(keys_->certificate), PemOf(keys_->key)};
}

Authority::~Authority() = default;

Identity Authority::Issue(const std::string& name, Validity validity) const {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = Make(name, key, keys_->certificate, keys_->key, validity);
  Identity identity = {PemOf(certificate), PemOf(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return identity;
}

std::string Encrypted(const std::string& key) {
  BIO* const bio = BIO_new_mem_buf(key.data(), static_cast<int>(key.size()));
  EVP_PKEY* const read = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  std::string pem = Pem([&](BIO* out) {
    char password[] = "password";
    return PEM_write_bio_PKCS8PrivateKey(out, read, EVP_aes_256_cbc(), password, 8, nullptr, nullptr);
  });
  EVP_PKEY_free(read);
  return pem;
}

}  // namespace lion::testing
