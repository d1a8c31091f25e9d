// Bytes that are no request, and compressed ones: what only a client of our own making sends.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/resource.h>

#include <string>

#include "tests/server/rpc_fixture.h"

namespace lion {
namespace {

using ::testing::HasSubstr;

class RpcWireTest : public RpcTest {
 protected:
  grpc::Status Send(const std::string& method, const std::string& bytes,
                    grpc_compression_algorithm algorithm = GRPC_COMPRESS_NONE) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    auto call = stub.PrepareUnaryCall(&context, "/lion.v1.LionService/" + method, request, &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }
};

TEST_F(RpcWireTest, WhatIsNoRequestIsAnInternalErrorThatSaysSo) {
  PuppetEngine* engine = ServeOne();
  v1::EmbedRequest good = EmbedOf({1});
  EXPECT_TRUE(Send("Embed", good.SerializeAsString()).ok());
  // Field 1, the model: a string of one byte that is not UTF-8. Then a field that is cut off, then a wrong wire type.
  const std::string no_utf8("\x0a\x01\xff", 3);
  for (const std::string& bytes : {no_utf8, std::string("\x0a\x7f", 2), std::string("\xff\xff\xff\xff")}) {
    for (const char* method : {"Embed", "Classify", "GetModel"}) {
      const grpc::Status status = Send(method, bytes);
      EXPECT_EQ(status.error_code(), grpc::INTERNAL) << method;
      EXPECT_THAT(status.error_message(), HasSubstr(absl::StrCat("not a valid lion.v1.", method, "Request message")));
    }
  }
  EXPECT_EQ(Send("ListModels", "\xff\xff").error_code(), grpc::INTERNAL);
  EXPECT_EQ(engine->inputs(), 1);
  EXPECT_TRUE(Embed(good).status.ok()) << "and the server goes on";
}

TEST_F(RpcWireTest, CompressedRequestsAreRefusedBeforeTheyAreInflated) {
  PuppetEngine* engine = ServeOne();
  // 1000 times as large as on the wire.
  const std::string zeros(size_t{200} << 20, '\0');
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const grpc::Status small = Send("Embed", EmbedOf({1}).SerializeAsString(), algorithm);
    EXPECT_EQ(small.error_code(), grpc::UNIMPLEMENTED) << small.error_message();
    EXPECT_THAT(small.error_message(), HasSubstr("is disabled"));
    EXPECT_EQ(Send("Embed", zeros, algorithm).error_code(), grpc::UNIMPLEMENTED);
  }
  EXPECT_EQ(engine->inputs(), 0);
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
#ifndef LION_SANITIZED  // whose allocators keep what is freed
  // This process is the client as well, which holds `zeros` once more while it compresses.
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 300 * 1024) << "KiB";
#endif
}

}  // namespace
}  // namespace lion
