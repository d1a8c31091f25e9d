// Bearer tokens: who is let in, what stays open, and what a refused call costs.
#include <grpcpp/generic/generic_stub.h>

#include <condition_variable>
#include <mutex>

#include "tests/server/rpc_secure_fixture.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RpcTokensTest : public SecureRpcTest {
 protected:
  void StartWithTokens(const std::string& text) {
    RpcServerOptions options;
    options.metrics = &series_;
    StartServer(Tokens(text), options);
  }
  // A call of which nothing but its head is sent, however long it lasts.
  grpc::Status OnlyHead(const std::string& method, const std::string& message = "") {
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel_);
    Reactor reactor(message);
    reactor.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stub.PrepareBidiStreamingCall(&reactor.context, method, {}, &reactor);
    return reactor.Await();
  }

  Metrics series_{"test", "cpu"};

 private:
  class Reactor : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Reactor(const std::string& message) : slice_(message), buffer_(&slice_, 1), send_(!message.empty()) {}
    grpc::Status Await() {
      if (send_) {
        StartWriteLast(&buffer_, {});
      }
      StartRead(&response_);
      StartCall();
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return done_; });
      return status_;
    }
    void OnDone(const grpc::Status& status) override {
      std::lock_guard lock(mutex_);
      status_ = status;
      done_ = true;
      changed_.notify_all();
    }
    grpc::ClientContext context;

   private:
    const grpc::Slice slice_;
    const grpc::ByteBuffer buffer_;
    const bool send_;
    grpc::ByteBuffer response_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool done_ = false;
    grpc::Status status_;
  };
};

TEST_F(RpcTokensTest, OnlyTheRightTokenIsLetIn) {
  StartWithTokens("first\nsecond\n");
  for (const char* good : {"Bearer first", "Bearer second", "bearer first", "BEARER   second"}) {
    EXPECT_TRUE(List(*stub_, good).ok()) << good;
  }
  const char* const bad[] = {"",         "first",         "Bearer",      "Bearer ",      "Basic first",
                             "Bearer x", "Bearer first2", "Bearer firs", "Bearer First", "Bearer first, Bearer second"};
  for (const char* authorization : bad) {
    const grpc::Status status = List(*stub_, authorization);
    EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED) << authorization;
    EXPECT_THAT(status.error_message(), AllOf(HasSubstr("token"), Not(HasSubstr("first")))) << authorization;
  }
  EXPECT_THAT(List(*stub_).error_message(), HasSubstr("authorization: Bearer TOKEN"));
  EXPECT_THAT(series_.Text(), HasSubstr("lion_unauthenticated_total 11"));
}

TEST_F(RpcTokensTest, TwoTokensAreNone) {
  StartWithTokens("first\n");
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer first");
  context.AddMetadata("authorization", "Bearer guess");
  v1::ListModelsResponse response;
  EXPECT_EQ(stub_->ListModels(&context, {}, &response).error_code(), grpc::UNAUTHENTICATED);
}

// All of the service's calls and streams, and what is no call at all.
TEST_F(RpcTokensTest, ARefusedCallIsOverBeforeItsRequestIsSent) {
  StartWithTokens("first\n");
  for (const char* method : {"ListModels", "GetModel", "Embed", "Classify", "FillMask", "Tokenize", "EmbedStream",
                             "ClassifyStream", "NoSuchCall"}) {
    const grpc::Status status = OnlyHead(absl::StrCat("/lion.v1.LionService/", method));
    EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED) << method << status.error_message();
  }
  for (const char* path : {"/inference.GRPCInferenceService/ServerLive", "/inference.GRPCInferenceService/ModelInfer",
                           "/inference.GRPCInferenceService/RepositoryModelUnload", "/tei.v1.Embed/EmbedStream",
                           "/tei.v1.Info/Info", "/tei.v1.Tokenize/Decode"}) {
    EXPECT_EQ(OnlyHead(path).error_code(), grpc::UNAUTHENTICATED) << path;
  }
  EXPECT_EQ(OnlyHead("/grpc.health.v1.HealthOfAnother/Check").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_THAT(series_.Text(),
              HasSubstr("lion_requests_total{code=\"UNAUTHENTICATED\",method=\"Embed\",model=\"unknown\","
                        "version=\"\"} 0"));
}

TEST_F(RpcTokensTest, HealthAndReflectionAreOpen) {
  StartWithTokens("first\n");
  EXPECT_EQ(Health(""), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("puppet"), grpc::health::v1::HealthCheckResponse::SERVING);
  grpc::ClientContext context;
  const auto watch = health_->Watch(&context, {});
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_TRUE(watch->Read(&response));
  context.TryCancel();
  // list_services, field 7: an empty string.
  const grpc::Status listed =
      OnlyHead("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::string("\x3a\x00", 2));
  EXPECT_TRUE(listed.ok()) << listed.error_message();
}

TEST_F(RpcTokensTest, AStreamWithTheTokenIsLetIn) {
  StartWithTokens("first\n");
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer first");
  const auto stream = stub_->EmbedStream(&context);
  ASSERT_TRUE(stream->Write(EmbedOf({3})));
  v1::EmbedResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.results(0).embedding().values(0), 3);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(RpcTokensTest, NewTokensTakeThePlaceOfOldOnes) {
  StartWithTokens("first\n");
  Tokens("second\n");
  secrets_->Refresh();
  EXPECT_EQ(List(*stub_, "Bearer first").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_TRUE(List(*stub_, "Bearer second").ok());
  Tokens("");
  secrets_->Refresh();
  EXPECT_TRUE(List(*stub_, "Bearer second").ok()) << "a file without tokens changes nothing";
}

TEST_F(RpcTokensTest, TheSocketWantsThemToo) {
  RpcServerOptions options;
  options.unix_socket = folder_.Path("socket");
  StartServer(Tokens("first\n"), options);
  const auto stub = Connect("unix:" + options.unix_socket, grpc::InsecureChannelCredentials());
  EXPECT_EQ(List(*stub).error_code(), grpc::UNAUTHENTICATED);
  EXPECT_TRUE(List(*stub, "Bearer first").ok());
}

}  // namespace
}  // namespace lion
