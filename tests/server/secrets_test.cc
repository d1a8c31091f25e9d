// Tokens and certificates as their files have them: what is refused, and what a change does.
#include "server/security/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/temporary_folder.h"
#include "tests/support/certificates.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(TokenListTest, TakesOneTokenALine) {
  const absl::StatusOr<TokenList> list = TokenList::Parse("# who\n\n  first \r\n#second\nthird");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->size(), 2u);
  EXPECT_TRUE(list->Has("first"));
  EXPECT_TRUE(list->Has("third"));
  for (const char* wrong : {"", "#second", "second", "firs", "first ", "firstthird", "First", "# who"}) {
    EXPECT_FALSE(list->Has(wrong)) << wrong;
  }
}

TEST(TokenListTest, RefusesWhatIsNoTokenAndDoesNotShowIt) {
  for (const char* text : {"good\nsecret word", "good\nsecret\tword", "good\nsecr\xc3\xa9t", "good\nsecret\x01"}) {
    const absl::Status status = TokenList::Parse(text).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << text;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("line 2"), Not(HasSubstr("secr"))));
  }
  for (const char* text : {"", "\n \n", "# only\n"}) {
    EXPECT_THAT(std::string(TokenList::Parse(text).status().message()), HasSubstr("holds no token")) << text;
  }
}

class SecretsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write(authority_.Issue("first"));
    folder_.Write("ca.pem", authority_.certificate());
    folder_.Write("tokens", "one\n");
  }
  void Write(const testing::Identity& identity) const {
    folder_.Write("cert.pem", identity.certificate);
    folder_.Write("key.pem", identity.key);
  }
  absl::Status Load() {
    absl::StatusOr<std::unique_ptr<Secrets>> secrets =
        Secrets::Load(paths_, &clock_, [this](const auto& line, bool bad) {
          MutexLock lock(mutex_);
          lines_.push_back((bad ? "W " : "I ") + line);
        });
    if (!secrets.ok()) return secrets.status();
    secrets_ = *std::move(secrets);
    return absl::OkStatus();
  }
  // What was said since the last time.
  std::vector<std::string> Lines() {
    MutexLock lock(mutex_);
    return std::exchange(lines_, {});
  }
  void ExpectRefused(const std::vector<std::string>& words) {
    const absl::Status status = Load();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    for (const std::string& word : words) EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    EXPECT_THAT(Lines(), IsEmpty());
  }

  const testing::Authority authority_{"authority"};
  const testing::TemporaryFolder folder_;
  SecretPaths paths_ = {.tls = {.certificate = folder_.Path("cert.pem"),
                                .key = folder_.Path("key.pem"),
                                .client_ca = folder_.Path("ca.pem")},
                        .token_file = folder_.Path("tokens")};
  SteadyClock clock_;
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Secrets> secrets_;  // goes first: it has a thread
};

TEST_F(SecretsTest, NothingIsAskedForWithoutFiles) {
  paths_ = {};
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(secrets_->tls(), nullptr);
  EXPECT_EQ(secrets_->tokens(), nullptr);
}

TEST_F(SecretsTest, SaysWhoseCertificateItIs) {
  const absl::Status status = Load();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Lines(),
              ElementsAre(AllOf(HasSubstr("CN=first, valid until 20"), HasSubstr("callers need a certificate")),
                          HasSubstr("one of 1 tokens")));
  EXPECT_EQ(secrets_->tls()->certificate_chain, testing::ReadFile(folder_.Path("cert.pem")));
}

TEST_F(SecretsTest, AFlagWithoutItsOtherIsAUsageError) {
  const TlsPaths all = paths_.tls;
  for (const TlsPaths& tls :
       {TlsPaths{all.certificate, "", ""}, TlsPaths{"", all.key, ""}, TlsPaths{"", "", all.client_ca}}) {
    paths_.tls = tls;
    EXPECT_TRUE(absl::IsInvalidArgument(Load())) << Load();
  }
}

TEST_F(SecretsTest, WhatIsWrongWithAFileIsSaid) {
  const testing::Identity other = authority_.Issue("other");
  const std::string good = testing::ReadFile(folder_.Path("cert.pem"));
  folder_.Write("key.pem", other.key);
  ExpectRefused({"--tls-key", "key.pem", "is not the key", "cert.pem", "CN=first"});
  folder_.Write("key.pem", testing::Encrypted(other.key));
  ExpectRefused({"--tls-key", "encrypted", "without a password"});
  folder_.Write("key.pem", other.certificate);
  ExpectRefused({"--tls-key", "holds no private key"});
  folder_.Write("cert.pem", other.key);
  ExpectRefused({"--tls-cert", "holds no certificate"});
  folder_.Write("cert.pem", good.substr(0, good.size() / 2));
  ExpectRefused({"--tls-cert", "certificate 1 cannot be read"});
  folder_.Write("cert.pem", good + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  ExpectRefused({"--tls-cert", "certificate 2 cannot be read"});
  folder_.Write("cert.pem", std::string((size_t{1} << 20) + 1, 'x'));
  ExpectRefused({"--tls-cert", "more than 1048576 bytes"});
  Write(authority_.Issue("stale", {.until_s = -60}));
  ExpectRefused({"--tls-cert", "CN=stale", "expired on 20"});
  Write(other);
  folder_.Write("ca.pem", other.key);
  ExpectRefused({"--tls-client-ca", "ca.pem", "holds no certificate"});
  folder_.Write("ca.pem", authority_.certificate());
  folder_.Write("tokens", "# none\n");
  ExpectRefused({"--token-file", "holds no token"});
  paths_.token_file = folder_.Path("");
  ExpectRefused({"--token-file", "not a regular file"});
  paths_.token_file = folder_.Path("gone");
  ExpectRefused({"--token-file", "gone", "No such file"});
}

TEST_F(SecretsTest, AChangedFileIsUsed) {
  ASSERT_TRUE(Load().ok());
  Lines();
  secrets_->Refresh();
  EXPECT_THAT(Lines(), IsEmpty());
  const testing::Identity second = authority_.Issue("second");
  Write(second);
  folder_.Write("tokens", "two\nthree\n");
  secrets_->Refresh();
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("CN=second"), HasSubstr("2 tokens")));
  EXPECT_EQ(secrets_->tls()->private_key, second.key);
  EXPECT_TRUE(secrets_->tokens()->Has("three"));
  EXPECT_FALSE(secrets_->tokens()->Has("one"));
}

TEST_F(SecretsTest, WhatCannotBeUsedLeavesTheOldAndIsSaidOnce) {
  ASSERT_TRUE(Load().ok());
  Lines();
  const std::string old_key = secrets_->tls()->private_key;
  const testing::Identity second = authority_.Issue("second");
  folder_.Write("cert.pem", second.certificate);
  std::remove(folder_.Path("tokens").c_str());
  for (int i = 0; i < 3; ++i) secrets_->Refresh();
  EXPECT_THAT(Lines(), ElementsAre(AllOf(HasSubstr("W "), HasSubstr("is not the key"), HasSubstr("--token-file"),
                                         HasSubstr("what was read before stays in use"))));
  EXPECT_EQ(secrets_->tls()->private_key, old_key);
  EXPECT_TRUE(secrets_->tokens()->Has("one"));
  // Its key comes later, as files are replaced one by one.
  folder_.Write("key.pem", second.key);
  folder_.Write("tokens", "one\n");
  secrets_->Refresh();
  EXPECT_THAT(Lines(), ElementsAre(AllOf(HasSubstr("I "), HasSubstr("CN=second"))));
  EXPECT_EQ(secrets_->tls()->private_key, second.key);
}

TEST_F(SecretsTest, ItLooksOfItsOwnAccord) {
  ASSERT_TRUE(Load().ok());
  folder_.Write("tokens", "two\n");
  while (!secrets_->tokens()->Has("two")) std::this_thread::yield();
}

}  // namespace
}  // namespace lion
