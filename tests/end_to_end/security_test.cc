// Certificates, tokens, the Unix socket and the disk, as only the real process shows them.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"
#include "tests/client/temporary_folder.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/certificates.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::ServerProcess;

class SecurityTest : public ::testing::Test {
 protected:
  static std::vector<std::string> Arguments(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--host", "127.0.0.1", "--max-input-tokens",
                                          "4096",   "--model",   testing::SourcePath("tests/golden/vision/lit_normal")};
    if (std::find(more.begin(), more.end(), "--grpc-port") == more.end())
      arguments.insert(arguments.end(), {"--grpc-port", "0"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void Write(const testing::Identity& identity) const {
    folder_.Write("cert.pem", identity.certificate);
    folder_.Write("key.pem", identity.key);
  }
  std::vector<std::string> TlsArguments() const {
    return {"--tls-cert", folder_.Path("cert.pem"), "--tls-key", folder_.Path("key.pem")};
  }
  std::unique_ptr<Client> Connect(ClientOptions options) const {
    options.own_connection = true;
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  ClientOptions TlsTo(int port) const {
    return {.address = absl::StrCat("localhost:", port), .tls = TlsOptions{.ca_file = folder_.Path("ca.pem")}};
  }
  void ExpectEnd(const std::vector<std::string>& arguments, int code, const std::string& words) const {
    ServerProcess server(Arguments(arguments));
    EXPECT_EQ(server.AwaitExit(), code) << server.standard_error();
    const std::string log = server.standard_error();
    EXPECT_THAT(log, HasSubstr(words));
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  }

  const testing::TemporaryFolder folder_;
  const testing::Authority authority_{"authority"};
  const std::string ca_ = folder_.Write("ca.pem", authority_.certificate());
};

TEST_F(SecurityTest, WhatCannotBeUsedAtStartIsOneLineAndAnExitCode) {
  Write({authority_.Issue("server").certificate, authority_.Issue("other").key});
  ExpectEnd(TlsArguments(), 6, "is not the key of the first certificate");
  Write(authority_.Issue("server", {.until_s = -60}));
  ExpectEnd(TlsArguments(), 6, "expired on");
  Write(authority_.Issue("server"));
  ExpectEnd({"--tls-cert", folder_.Path("cert.pem")}, 2, "--tls-cert is given without --tls-key");
  ExpectEnd({"--tls-cert", folder_.Path("none"), "--tls-key", folder_.Path("key.pem")}, 6, "No such file");
  ExpectEnd({"--token-file", folder_.Write("tokens", "\n")}, 6, "holds no token");
  std::vector<std::string> both = TlsArguments();
  both.insert(both.end(), {"--token-file", folder_.Path("tokens")});
  ExpectEnd(both, 6, "holds no token");
  ExpectEnd({"--grpc-port", "-1"}, 2, "--unix-socket");
  ExpectEnd({"--unix-socket", folder_.Path("no/folder/here")}, 4, "folder is missing");
  for (const char* mode : {"9", "66", "1777", "rw"}) {
    ServerProcess server(Arguments({"--unix-socket", folder_.Path("s"), "--unix-socket-mode", mode}));
    EXPECT_EQ(server.AwaitExit(), 2) << mode;
  }
}

TEST_F(SecurityTest, TlsTokensAndTheirReloadWithoutAFailedCall) {
  Write(authority_.Issue("first"));
  const std::string tokens = folder_.Write("tokens", "token-of-the-first\n");
  std::vector<std::string> arguments = TlsArguments();
  arguments.insert(arguments.end(), {"--token-file", tokens, "--log-level", "debug"});
  ServerProcess server(Arguments(arguments));
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  EXPECT_THAT(server.AwaitLog("SERVING on"), HasSubstr("with TLS"));

  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&, i] {
      ClientOptions options = TlsTo(port);
      options.token = "token-of-the-first";
      std::unique_ptr<Client> client = Connect(options);
      while (!stop) {
        if (i > 0) client = Connect(options);
        const auto models = client->ListModels();
        ASSERT_TRUE(models.ok()) << models.status();
        ++calls;
      }
    });
  }
  const testing::Identity second = authority_.Issue("second");
  folder_.Write("cert.pem", second.certificate);
  EXPECT_FALSE(server.AwaitLog("is not the key").empty());
  folder_.Write("key.pem", second.key);
  folder_.Write("tokens", "token-of-the-first\ntoken-of-the-second\n");
  EXPECT_FALSE(server.AwaitLog("CN=second").empty());
  EXPECT_FALSE(server.AwaitLog("one of 2 tokens").empty());
  const int then = calls;
  while (calls < then + 20) std::this_thread::yield();
  stop = true;
  for (std::thread& caller : callers) caller.join();

  ClientOptions options = TlsTo(port);
  EXPECT_TRUE(absl::IsUnauthenticated(Connect(options)->ListModels().status()));
  EXPECT_TRUE(Connect(options)->CheckHealth("").ok()) << "probes have no token";
  options.token = "token-of-a-thief";
  EXPECT_TRUE(absl::IsUnauthenticated(Connect(options)->ListModels().status()));
  options.token = "token-of-the-second";
  EXPECT_TRUE(Connect(options)->ListModels().ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.AwaitExit(), 0);
  EXPECT_THAT(server.standard_error(), Not(HasSubstr("token-of")));
}

TEST_F(SecurityTest, TokensInPlaintextAreWarnedOf) {
  const std::string tokens = folder_.Write("tokens", "abc\n");
  ServerProcess open({"--host", "0.0.0.0", "--grpc-port", "0", "--token-file", tokens, "--model", "/nowhere"});
  EXPECT_EQ(open.AwaitExit(), 3);
  EXPECT_THAT(open.standard_error(), HasSubstr("plaintext"));
  ServerProcess local(Arguments({"--token-file", tokens}));
  ASSERT_NE(local.AwaitServing(), 0) << local.standard_error();
  EXPECT_THAT(local.standard_error(), Not(HasSubstr("plaintext")));
}

TEST_F(SecurityTest, ReflectionCanBeTurnedOff) {
  for (const bool on : {true, false}) {
    ServerProcess server(on ? Arguments({}) : Arguments({"--no-reflection"}));
    const int port = server.AwaitServing();
    ASSERT_NE(port, 0) << server.standard_error();
    grpc::GenericStub stub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call =
        stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
    const auto next = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      queue.Next(&tag, &ok);
    };
    grpc::Status status;
    call->StartCall(nullptr);
    next();
    call->WritesDone(nullptr);
    next();
    call->Finish(&status, nullptr);
    next();
    EXPECT_EQ(status.error_code(), on ? grpc::OK : grpc::UNIMPLEMENTED) << status.error_message();
  }
}

TEST_F(SecurityTest, AKilledServersSocketIsTakenOverAndALiveOnesIsNot) {
  const std::string path = folder_.Path("socket");
  const std::vector<std::string> arguments = Arguments({"--grpc-port", "-1", "--unix-socket", path});
  {
    ServerProcess killed(arguments);
    ASSERT_FALSE(killed.AwaitLog("SERVING on unix:" + path).empty()) << killed.standard_error();
    killed.Signal(SIGKILL);
    killed.AwaitExit();
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  ServerProcess server(arguments);
  ASSERT_FALSE(server.AwaitLog("SERVING on unix:" + path).empty()) << server.standard_error();
  ServerProcess another(arguments);
  EXPECT_EQ(another.AwaitExit(), 4);
  EXPECT_THAT(another.standard_error(), HasSubstr("another server listens there"));
  EXPECT_TRUE(Connect({.address = "unix:" + path})->ListModels().ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.AwaitExit(), 0);
  EXPECT_FALSE(std::filesystem::exists(path));
}

// scripts/acceptance/read_only.sh does the same on a read-only root, as nobody.
TEST_F(SecurityTest, NoFileIsWrittenTo) {
  // A byte more than nothing in any file is a signal then, which ends the process.
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none = {0, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  ServerProcess server(Arguments({}));
  setrlimit(RLIMIT_FSIZE, &before);
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  v1::EmbedRequest request;
  request.add_inputs()->set_image(testing::ReadFile(testing::SourcePath("models/mnist-lion-s/digits/7.png")));
  const auto response = Connect({.address = absl::StrCat("127.0.0.1:", port)})->Embed(request);
  EXPECT_TRUE(response.ok()) << response.status();
  server.Signal(SIGTERM);
  EXPECT_FALSE(server.AwaitLog("all accepted calls are finished").empty()) << server.standard_error();
}

}  // namespace
}  // namespace lion
