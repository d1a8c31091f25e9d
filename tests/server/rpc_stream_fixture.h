// A stream to the server in this process, driven step by step.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tests/server/rpc_fixture.h"

namespace lion {

class RpcStreamTest : public RpcTest {
 protected:
  using EmbedStreamPointer = std::unique_ptr<grpc::ClientReaderWriter<v1::EmbedRequest, v1::EmbedResponse>>;

  // One client's stream. Ends it, if need be by cancelling, when it goes out of scope.
  struct Stream {
    explicit Stream(v1::LionService::Stub* stub) : rpc(stub->EmbedStream(&context)) {}
    ~Stream() {
      if (ended) return;
      context.TryCancel();
      End();
    }
    bool Write(const v1::EmbedRequest& request) { return rpc->Write(request); }
    // The next response; without one the stream has ended.
    v1::EmbedResponse Read() {
      v1::EmbedResponse response;
      EXPECT_TRUE(rpc->Read(&response)) << "the stream has ended";
      return response;
    }
    // Says that no more requests come, and reads on until the stream ends.
    grpc::Status End() {
      rpc->WritesDone();
      v1::EmbedResponse response;
      while (rpc->Read(&response)) ++left_over;
      ended = true;
      return rpc->Finish();
    }

    grpc::ClientContext context;
    EmbedStreamPointer rpc;
    int left_over = 0;
    bool ended = false;
  };
};

}  // namespace lion
