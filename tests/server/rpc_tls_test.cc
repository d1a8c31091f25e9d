// TLS and certificates of callers, and new certificates under load.
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/server/rpc_secure_fixture.h"

namespace lion {
namespace {

using ::testing::HasSubstr;

class RpcTlsTest : public SecureRpcTest {
 protected:
  void StartWithTls(const RpcServerOptions& options = {}) { StartServer(Tls(authority_.Issue("server")), options); }
  void StartWithMutualTls() {
    SecretPaths paths = Tls(authority_.Issue("server"));
    paths.tls.client_ca = folder_.Write("ca.pem", authority_.certificate());
    StartServer(paths);
  }
  grpc::Status ListWith(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    return List(*Connect(Port(), credentials));
  }
};

TEST_F(RpcTlsTest, AClientThatTrustsTheAuthorityIsServed) {
  StartWithTls();
  EXPECT_THAT(server_->address(), HasSubstr("with TLS"));
  EXPECT_TRUE(ListWith(Trusting(authority_)).ok());
  // A certificate that nobody asked for does no harm.
  EXPECT_TRUE(ListWith(Trusting(authority_, stranger_.Issue("client"))).ok());
}

TEST_F(RpcTlsTest, AClientThatTrustsAnotherIsNot) {
  StartWithTls();
  const grpc::Status status = ListWith(Trusting(stranger_));
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("certificate verify failed"));
}

TEST_F(RpcTlsTest, PlaintextIsNotServed) {
  StartWithTls();
  EXPECT_EQ(ListWith(grpc::InsecureChannelCredentials()).error_code(), grpc::UNAVAILABLE);
  EXPECT_TRUE(ListWith(Trusting(authority_)).ok()) << "others are";
}

TEST_F(RpcTlsTest, TheSocketIsPlaintext) {
  RpcServerOptions options;
  options.unix_socket = folder_.Path("socket");
  StartWithTls(options);
  EXPECT_TRUE(List(*Connect("unix:" + options.unix_socket, grpc::InsecureChannelCredentials())).ok());
  EXPECT_TRUE(ListWith(Trusting(authority_)).ok());
}

TEST_F(RpcTlsTest, CallersNeedACertificateThatIsValidAndOfTheAuthority) {
  StartWithMutualTls();
  EXPECT_TRUE(ListWith(Trusting(authority_, authority_.Issue("client"))).ok());
  const std::pair<const char*, testing::Identity> refused[] = {
      {"none", {}},
      {"of another authority", stranger_.Issue("client")},
      {"expired", authority_.Issue("client", {.until_s = -60})},
      {"of the future", authority_.Issue("client", {.from_s = 1800})}};
  for (const auto& [what, identity] : refused) {
    EXPECT_EQ(ListWith(Trusting(authority_, identity)).error_code(), grpc::UNAVAILABLE) << what;
  }
  EXPECT_EQ(ListWith(grpc::InsecureChannelCredentials()).error_code(), grpc::UNAVAILABLE);
}

TEST_F(RpcTlsTest, ANewAuthorityOfCallersHoldsForNewConnections) {
  StartWithMutualTls();
  const auto before = Connect(Port(), Trusting(authority_, authority_.Issue("client")));
  ASSERT_TRUE(List(*before).ok());
  folder_.Write("ca.pem", stranger_.certificate());
  secrets_->Refresh();
  EXPECT_TRUE(ListWith(Trusting(authority_, stranger_.Issue("client"))).ok());
  EXPECT_EQ(ListWith(Trusting(authority_, authority_.Issue("client"))).error_code(), grpc::UNAVAILABLE);
  EXPECT_TRUE(List(*before).ok()) << "a connection lives on";
}

// Clients come, some of them on connections of their own, while the server's certificate is replaced again and again,
// at times by one that is broken.
TEST_F(RpcTlsTest, NewCertificatesFailNoCall) {
  StartWithTls();
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0, failed = 0;
  std::mutex mutex;
  std::set<std::string> seen;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      auto stub = Connect(Port(), Trusting(authority_));
      while (!stop) {
        if (i > 0) stub = Connect(Port(), Trusting(authority_));
        grpc::ClientContext context;
        v1::EmbedResponse response;
        const grpc::Status status = stub->Embed(&context, EmbedOf({7}), &response);
        if (!status.ok()) {
          ++failed;
          ADD_FAILURE() << status.error_message();
          return;
        }
        ++calls;
        const auto certificates = context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
        const std::lock_guard lock(mutex);
        for (const grpc::string_ref& pem : certificates) seen.emplace(pem.data(), pem.size());
      }
    });
  }
  const auto was_seen = [&](const std::string& certificate) {
    const std::lock_guard lock(mutex);
    return seen.count(certificate) > 0;
  };
  for (int round = 0; round < 20 && failed == 0; ++round) {
    const testing::Identity next = authority_.Issue(absl::StrCat("server ", round));
    folder_.Write("cert.pem", round % 4 == 3 ? "broken" : next.certificate);
    secrets_->Refresh();  // the key is not there yet
    folder_.Write("cert.pem", next.certificate);
    folder_.Write("key.pem", next.key);
    secrets_->Refresh();
    while (!was_seen(next.certificate) && failed == 0) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GE(calls, 20);
  EXPECT_GE(seen.size(), 20u);
}

}  // namespace
}  // namespace lion
