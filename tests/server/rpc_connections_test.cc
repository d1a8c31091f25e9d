// How often clients may ping, and how long connections last.
#include <thread>

#include "tests/server/rpc_secure_fixture.h"

namespace lion {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

class RpcConnectionsTest : public SecureRpcTest {
 protected:
  static grpc::ChannelArguments PingingEvery(int interval_ms) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, interval_ms);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_MIN_SENT_PING_INTERVAL_WITHOUT_DATA_MS, interval_ms);
    return arguments;
  }
  // A call that the engine holds until it is released, or until its connection is cut.
  static grpc::Status LongCall(v1::LionService::Stub& stub, int64_t timeout_ms) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + milliseconds(timeout_ms));
    v1::EmbedResponse response;
    return stub.Embed(&context, EmbedOf({1}), &response);
  }
};

TEST_F(RpcConnectionsTest, AClientThatPingsTooOftenIsCutOffAndOthersAreNot) {
  StartServer({});  // pings at least 10 s apart
  puppet_->Hold();
  const auto quiet = Connect(Port(), grpc::InsecureChannelCredentials());
  grpc::Status of_quiet;
  std::thread other([&] { of_quiet = LongCall(*quiet, 60'000); });
  const auto eager = Connect(Port(), grpc::InsecureChannelCredentials(), PingingEvery(100));
  const grpc::Status status = LongCall(*eager, 30'000);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("pings"));
  puppet_->Release();
  other.join();
  EXPECT_TRUE(of_quiet.ok()) << of_quiet.error_message();
}

// Three times the interval that the server wants, as 30 s are to its 10 s; with a call open and without.
TEST_F(RpcConnectionsTest, AClientThatPingsNowAndThenIsNot) {
  RpcServerOptions options;
  options.connections.min_ping_interval_ms = 50;
  StartServer({}, options);
  const auto stub = Connect(Port(), grpc::InsecureChannelCredentials(), PingingEvery(150));
  puppet_->Hold();
  EXPECT_EQ(LongCall(*stub, 2'000).error_code(), grpc::DEADLINE_EXCEEDED) << "ten pings later";
  puppet_->Release();
  std::this_thread::sleep_for(milliseconds(1'000));
  const grpc::Status status = LongCall(*stub, 30'000);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(RpcConnectionsTest, AnOldConnectionIsReplacedWithoutAFailedCall) {
  RpcServerOptions options;
  options.connections.max_age_s = 1;
  options.connections.max_age_grace_s = 1;
  StartServer({}, options);
  const auto stub = Connect(Port(), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  const auto stream = stub->EmbedStream(&context);
  ASSERT_TRUE(stream->Write(EmbedOf({2})));
  v1::EmbedResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const steady_clock::time_point begin = steady_clock::now();
  std::thread reader(
      [&] { EXPECT_FALSE(stream->Read(&response)) << "it is cut off once its connection's grace is over"; });
  while (steady_clock::now() - begin < milliseconds(3'500)) {
    const grpc::Status status = List(*stub);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  reader.join();
  EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
}

TEST_F(RpcConnectionsTest, LimitsOutOfRangeAreRefused) {
  for (const ConnectionLimits& limits :
       {ConnectionLimits{.max_age_s = -1}, ConnectionLimits{.max_age_grace_s = int64_t{1} << 40},
        ConnectionLimits{.max_idle_s = -5}}) {
    RpcServerOptions options = {.host = "127.0.0.1", .port = 0};
    options.connections = limits;
    EXPECT_TRUE(absl::IsInvalidArgument(RpcServer::Start(options, &registry_, &clock_).status()));
  }
}

}  // namespace
}  // namespace lion
