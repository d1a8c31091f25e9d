// A server with certificates and tokens in this process, and clients of all kinds.
#pragma once

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "server/security/secrets.h"
#include "tests/client/temporary_folder.h"
#include "tests/server/rpc_fixture.h"
#include "tests/support/certificates.h"

namespace lion {

class SecureRpcTest : public RpcTest {
 protected:
  void SetUp() override {}  // each test starts its server
  void TearDown() override {
    if (server_ != nullptr) RpcTest::TearDown();
    server_.reset();
    secrets_.reset();
  }

  // Serves a puppet. `paths`: of files in folder_.
  void StartServer(const SecretPaths& paths, RpcServerOptions options = {}) {
    absl::StatusOr<std::unique_ptr<Secrets>> secrets = Secrets::Load(paths, &clock_, [](const std::string&, bool) {});
    ASSERT_TRUE(secrets.ok()) << secrets.status();
    secrets_ = *std::move(secrets);
    options.secrets = secrets_.get();
    Start(options);
    puppet_ = ServeOne();
  }
  SecretPaths Tokens(const std::string& text) const { return {.token_file = folder_.Write("tokens", text)}; }
  SecretPaths Tls(const testing::Identity& identity) const {
    return {.tls = {.certificate = folder_.Write("cert.pem", identity.certificate),
                    .key = folder_.Write("key.pem", identity.key)}};
  }

  std::string Port() const { return absl::StrCat("localhost:", server_->port()); }
  // A client with a connection of its own.
  std::unique_ptr<v1::LionService::Stub> Connect(const std::string& address,
                                                 const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                                 grpc::ChannelArguments arguments = {}) const {
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return v1::LionService::NewStub(grpc::CreateCustomChannel(address, credentials, arguments));
  }
  static std::shared_ptr<grpc::ChannelCredentials> Trusting(const testing::Authority& authority,
                                                            const testing::Identity& own = {}) {
    return grpc::SslCredentials({authority.certificate(), own.key, own.certificate});
  }
  // One call; `authorization`: empty for none.
  static grpc::Status List(v1::LionService::Stub& stub, const std::string& authorization = "") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    v1::ListModelsResponse response;
    return stub.ListModels(&context, {}, &response);
  }

  const testing::TemporaryFolder folder_;
  const testing::Authority authority_{"authority"};
  const testing::Authority stranger_{"stranger"};
  std::unique_ptr<Secrets> secrets_;
  PuppetEngine* puppet_ = nullptr;
};

}  // namespace lion
