// How the client library shows who it is, and finds out who the server is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <future>
#include <set>

#include "lion/client.h"
#include "tests/client/fake_server.h"
#include "tests/client/secure_server.h"
#include "tests/client/temporary_folder.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ClientSecurityTest : public ::testing::Test {
 protected:
  void Serve(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    handlers_.classify = [this](grpc::ServerContext& context, const v1::ClassifyRequest& request,
                                v1::ClassifyResponse& response) {
      seen_.insert(testing::AuthorizationOf(context));
      for (int i = 0; i < request.inputs_size(); ++i) response.add_results();
      return grpc::Status::OK;
    };
    handlers_.classify_stream = [this](grpc::ServerContext& context, testing::ClassifyServerStream& stream) {
      return testing::AnswerEach(context, stream, handlers_.classify);
    };
    server_ = std::make_unique<testing::FakeServer>(&handlers_, 0, credentials);
  }
  ClientOptions To(const std::string& host = "localhost") const {
    ClientOptions options = {.address = host + ":" + std::to_string(server_->port())};
    options.tls = TlsOptions{.ca_file = ca_};
    options.own_connection = true;
    return options;
  }
  absl::Status Classify(const ClientOptions& options) {
    const auto client = Client::Create(options);
    if (!client.ok()) return client.status();
    return (*client)->Classify({}).status();
  }
  std::string RefusalOf(const ClientOptions& options) {
    const absl::Status status = Client::Create(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  const testing::TemporaryFolder folder_;
  const testing::Authority authority_{"authority"}, stranger_{"stranger"};
  const std::string ca_ = folder_.Write("ca.pem", authority_.certificate());
  testing::FakeHandlers handlers_;
  std::set<std::string> seen_;  // what calls brought
  std::unique_ptr<testing::FakeServer> server_;
};

TEST_F(ClientSecurityTest, TheServersCertificateMustBeOfTheAuthority) {
  Serve(testing::TlsOf(authority_.Issue("server")));
  EXPECT_TRUE(Classify(To()).ok()) << Classify(To());
  EXPECT_TRUE(Classify(To("127.0.0.1")).ok());
  ClientOptions wrong = To();
  wrong.tls->ca_file = folder_.Write("stranger.pem", stranger_.certificate());
  EXPECT_TRUE(absl::IsUnavailable(Classify(wrong)));
  wrong.tls->ca_file = "";
  EXPECT_TRUE(absl::IsUnavailable(Classify(wrong))) << "the system's authorities have not signed it";
  wrong.tls.reset();
  EXPECT_TRUE(absl::IsUnavailable(Classify(wrong)));
}

TEST_F(ClientSecurityTest, AnExpiredCertificateIsRefused) {
  Serve(testing::TlsOf(authority_.Issue("server", {.until_s = -60})));
  const absl::Status status = Classify(To());
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate verify failed"));
}

TEST_F(ClientSecurityTest, TheCertificateMustNameTheServer) {
  Serve(testing::TlsOf(authority_.Issue("server")));
  ClientOptions options = To();
  options.tls->server_name = "elsewhere.example";
  EXPECT_THAT(std::string(Classify(options).message()), HasSubstr("elsewhere.example is not in peer certificate"));
  options = To("127.0.0.1");
  options.tls->server_name = "localhost";
  EXPECT_TRUE(Classify(options).ok()) << Classify(options);
}

TEST_F(ClientSecurityTest, ShowsItsOwnCertificate) {
  Serve(testing::TlsOf(authority_.Issue("server"), &stranger_));
  ClientOptions options = To();
  EXPECT_TRUE(absl::IsUnavailable(Classify(options)));
  const testing::Identity own = stranger_.Issue("client");
  options.tls->certificate_file = folder_.Write("own.pem", own.certificate);
  options.tls->key_file = folder_.Write("own-key.pem", own.key);
  EXPECT_TRUE(Classify(options).ok()) << Classify(options);
}

TEST_F(ClientSecurityTest, FilesThatCannotBeUsedAreRefusedAtOnce) {
  const testing::Identity one = authority_.Issue("one"), two = authority_.Issue("two");
  const std::string certificate = folder_.Write("one.pem", one.certificate),
                    key = folder_.Write("one-key.pem", one.key);
  const auto refusal = [this](const TlsOptions& tls) {
    ClientOptions options;
    options.tls = tls;
    return RefusalOf(options);
  };
  EXPECT_THAT(refusal({.ca_file = folder_.Path("gone")}), HasSubstr("gone: cannot be read"));
  EXPECT_THAT(refusal({.ca_file = key}), HasSubstr("holds no CERTIFICATE"));
  EXPECT_THAT(refusal({.certificate_file = certificate}), HasSubstr("a certificate without its key"));
  EXPECT_THAT(refusal({.key_file = key}), HasSubstr("a key without its certificate"));
  EXPECT_THAT(refusal({.certificate_file = certificate, .key_file = certificate}), HasSubstr("holds no PRIVATE KEY"));
  EXPECT_THAT(refusal({.certificate_file = certificate, .key_file = folder_.Write("two-key.pem", two.key)}),
              AllOf(HasSubstr("two-key.pem"), HasSubstr("is not the key of"), HasSubstr("one.pem")));
  EXPECT_THAT(
      refusal({.certificate_file = certificate, .key_file = folder_.Write("e.pem", testing::Encrypted(one.key))}),
      HasSubstr("without a password"));
}

TEST_F(ClientSecurityTest, TokensThatNoCallCanCarryAreRefusedAndNotShown) {
  EXPECT_THAT(RefusalOf({.token = "secret with spaces"}), AllOf(HasSubstr("visible ASCII"), Not(HasSubstr("secret"))));
  EXPECT_THAT(RefusalOf({.token_file = folder_.Write("bad", "secret\x02\n")}),
              AllOf(HasSubstr("bad"), HasSubstr("visible ASCII"), Not(HasSubstr("secret"))));
  EXPECT_THAT(RefusalOf({.token_file = folder_.Write("none", "# nothing\n")}), HasSubstr("holds no token"));
  EXPECT_THAT(RefusalOf({.token_file = folder_.Path("gone")}), HasSubstr("cannot be read"));
  EXPECT_THAT(RefusalOf({.token = "a", .token_file = folder_.Path("b")}), HasSubstr("both"));
}

TEST_F(ClientSecurityTest, EveryKindOfCallBringsTheToken) {
  Serve(testing::TlsOf(authority_.Issue("server")));
  ClientOptions options = To();
  options.token = "abc";
  const auto client = Client::Create(options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Classify({}).ok());
  std::promise<absl::Status> done;
  (*client)->ClassifyAsync(v1::ClassifyRequest(), {}, [&](const auto& response) { done.set_value(response.status()); });
  EXPECT_TRUE(done.get_future().get().ok());
  const auto stream = (*client)->OpenClassifyStream();
  EXPECT_TRUE((*stream)->Call({}).ok());
  EXPECT_TRUE((*stream)->Finish().ok());
  EXPECT_THAT(seen_, ElementsAre("Bearer abc"));
}

TEST_F(ClientSecurityTest, TheTokenOfAFileMayChange) {
  Serve(nullptr);
  ClientOptions options = To();
  options.tls.reset();
  options.token_file = folder_.Write("token", "# mine\n\nfirst\nanother\n");
  const auto client = Client::Create(options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Classify({}).ok());
  EXPECT_THAT(seen_, ElementsAre("Bearer first"));
  std::remove(options.token_file.c_str());
  folder_.Write("token", "second\n");
  while (seen_.count("Bearer second") == 0) EXPECT_TRUE((*client)->Classify({}).ok());
  EXPECT_EQ(seen_.size(), 2u);
}

}  // namespace
}  // namespace lion
