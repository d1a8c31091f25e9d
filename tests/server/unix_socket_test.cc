// The server's Unix socket: who may connect, and what may be in its place.
#include "server/rpc/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "tests/server/rpc_secure_fixture.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class UnixSocketTest : public SecureRpcTest {
 protected:
  absl::Status TryStart() {
    absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(options_, &registry_, &clock_);
    return server.status();
  }
  // A socket that nobody listens on, as one who was killed leaves it.
  void LeaveSocket(const std::string& path) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    close(descriptor);
  }

  const std::string path_ = folder_.Path("socket");
  RpcServerOptions options_ = {.host = "127.0.0.1", .port = -1, .unix_socket = path_};
};

TEST_F(UnixSocketTest, ServesWithoutAPort) {
  absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(options_, &registry_, &clock_);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  ServeOne();
  EXPECT_EQ(server_->port(), 0);
  EXPECT_EQ(server_->address(), "unix:" + path_);
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  const auto stub = Connect("unix:" + path_, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  v1::EmbedResponse response;
  const grpc::Status status = stub->Embed(&context, EmbedOf({5}), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.results(0).embedding().values(0), 5);
  TearDown();
  EXPECT_FALSE(std::filesystem::exists(path_)) << "it goes with its server";
}

TEST_F(UnixSocketTest, HasTheModeThatIsAskedFor) {
  const mode_t before = umask(022);
  for (const int mode : {0600, 0666, 0777}) {
    options_.unix_socket_mode = mode;
    absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(options_, &registry_, &clock_);
    ASSERT_TRUE(server.ok()) << server.status();
    struct stat info = {};
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, static_cast<mode_t>(mode));
  }
  EXPECT_EQ(umask(before), 022u) << "files that are made later have the old one";
}

TEST_F(UnixSocketTest, TakesThePlaceOfOneThatNobodyListensOn) {
  LeaveSocket(path_);
  EXPECT_TRUE(TryStart().ok()) << TryStart();
}

TEST_F(UnixSocketTest, LeavesALiveOneAlone) {
  absl::StatusOr<std::unique_ptr<RpcServer>> first = RpcServer::Start(options_, &registry_, &clock_);
  ASSERT_TRUE(first.ok()) << first.status();
  server_ = *std::move(first);
  const absl::Status second = TryStart();
  EXPECT_TRUE(absl::IsUnavailable(second)) << second;
  EXPECT_THAT(std::string(second.message()), AllOf(HasSubstr(path_), HasSubstr("another server listens there")));
  ServeOne();
  EXPECT_TRUE(List(*Connect("unix:" + path_, grpc::InsecureChannelCredentials())).ok()) << "the first is still reached";
}

TEST_F(UnixSocketTest, LeavesOtherFilesAlone) {
  folder_.Write("socket", "precious");
  EXPECT_THAT(std::string(TryStart().message()), HasSubstr("not a socket"));
  EXPECT_EQ(testing::ReadFile(path_), "precious");
}

TEST_F(UnixSocketTest, APathThatCannotBeIsAnError) {
  options_.unix_socket = folder_.Path("no/such/folder");
  EXPECT_THAT(std::string(TryStart().message()), AllOf(HasSubstr(options_.unix_socket), HasSubstr("folder")));
  options_.unix_socket = folder_.Path(std::string(100, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(TryStart())) << TryStart();
  options_.unix_socket = "";
  EXPECT_TRUE(absl::IsInvalidArgument(TryStart())) << TryStart();
}

}  // namespace
}  // namespace lion
