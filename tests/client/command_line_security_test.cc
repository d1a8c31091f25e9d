// What `lion` does with certificates and tokens.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/client/command_line.h"
#include "tests/client/secure_server.h"

namespace lion {
namespace {

using ::lion::testing::AuthorizationOf;
using ::lion::testing::FakeServer;
using ::lion::testing::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CommandLineSecurityTest : public testing::CommandLineTest {
 protected:
  CommandLineSecurityTest() {
    folder_.Write("ca.pem", authority_.certificate());
    folder_.Write("7.png", "7");
    folder_.Write("token", "abc\n");
    // A server that wants a token.
    handlers_.classify = [classify = handlers_.classify](grpc::ServerContext& context,
                                                         const v1::ClassifyRequest& request,
                                                         v1::ClassifyResponse& response) {
      if (AuthorizationOf(context) != "Bearer abc") return grpc::Status(grpc::UNAUTHENTICATED, "no good token");
      return classify(context, request, response);
    };
    handlers_.embed = [](grpc::ServerContext& context, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
      if (AuthorizationOf(context) != "Bearer abc") return grpc::Status(grpc::UNAUTHENTICATED, "no good token");
      for (int i = 0; i < request.inputs_size(); ++i) {
        response.add_results()->mutable_embedding()->add_values(1);
      }
      return grpc::Status::OK;
    };
    handlers_.get_model = [](const v1::GetModelRequest&, v1::Model& model) {
      model.set_name("digits");
      return grpc::Status::OK;
    };
  }
  void ServeTls(const testing::Identity& identity, const testing::Authority* callers = nullptr) {
    server_ = std::make_unique<FakeServer>(&handlers_, 0, testing::TlsOf(identity, callers));
  }

  const testing::Authority authority_{"authority"}, stranger_{"stranger"};
};

TEST_F(CommandLineSecurityTest, CallsOverTlsWithAToken) {
  ServeTls(authority_.Issue("server"));
  Outcome outcome = Run("classify 7.png --tls-ca ca.pem --token-file token");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("75.0 %"));
  outcome = Run("bench --concurrency 1 --requests 3 --warm-up-s 0 --tls-ca ca.pem --token-file token");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("3 succeeded"));
  limit_ = "export LION_TOKEN=abc LION_TLS_CA=ca.pem &&";
  EXPECT_EQ(Run("classify 7.png").exit_status, 0);
  EXPECT_EQ(Run("health").exit_status, 0);
}

TEST_F(CommandLineSecurityTest, ATokenThatIsMissingOrWrongIsExplained) {
  Outcome outcome = Run("classify 7.png");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("UNAUTHENTICATED"), HasSubstr("--token-file"), HasSubstr("LION_TOKEN")));
  limit_ = "export LION_TOKEN=secret &&";
  outcome = Run("classify 7.png");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("UNAUTHENTICATED"), Not(HasSubstr("secret"))));
  EXPECT_EQ(Run("classify 7.png --token-file token").exit_status, 0) << "the flag counts more";
}

TEST_F(CommandLineSecurityTest, WhyThereIsNoConnectionIsSaidInAFewWords) {
  ServeTls(authority_.Issue("server"), &authority_);
  folder_.Write("other.pem", stranger_.certificate());
  const std::pair<const char*, const char*> causes[] = {
      {"--tls-ca other.pem", "not trusted here (--tls-ca)"},
      {"--tls-ca ca.pem --tls-server-name x.example", "(--tls-server-name)"},
      {"--tls-ca ca.pem", "certificate of its callers (--tls-cert)"},
      {"", "does it want TLS (--tls)"},
      {"--tls-ca gone.pem", "gone.pem: cannot be read"}};
  for (const auto& [flags, words] : causes) {
    const Outcome outcome = Run(absl::StrCat("models ", flags));
    EXPECT_EQ(outcome.exit_status, 1);
    EXPECT_THAT(outcome.err, HasSubstr(words)) << flags;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(CommandLineSecurityTest, APlaintextServerIsNotCalledOverTls) {
  const Outcome outcome = Run("classify 7.png --tls-ca ca.pem --token-file token");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("it does not speak TLS"));
}

TEST_F(CommandLineSecurityTest, ATokenThatLeavesTheMachineInPlaintextIsWarnedOf) {
  const std::string far = "models --timeout-ms 200 --token-file token --server ";
  EXPECT_THAT(Run(far + "192.0.2.1:1").err, HasSubstr("the token goes to 192.0.2.1:1 in plaintext"));
  EXPECT_THAT(Run(far + "192.0.2.1:1 --tls").err, Not(HasSubstr("plaintext")));
  EXPECT_THAT(Run(far + server_->address()).err, Not(HasSubstr("plaintext")));
}

}  // namespace
}  // namespace lion
