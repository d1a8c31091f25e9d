// The asynchronous calls that a client has running, so that they can be cancelled and waited for.
#pragma once

#include <grpcpp/client_context.h>

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>

namespace lion {

// Thread-safe.
class AsyncCalls {
 public:
  using Handle = std::list<std::weak_ptr<grpc::ClientContext>>::iterator;

  Handle Add(const std::shared_ptr<grpc::ClientContext>& context);
  // The caller has let go of the context before: it holds the channel, whose end waits for the threads of gRPC that
  // call back, and so must not come from one of them.
  void Remove(Handle handle);
  void CancelAll();
  void WaitUntilNone();

 private:
  std::mutex mutex_;  // guards what follows; never held while gRPC is called, which may end calls
  std::condition_variable changed_;
  std::list<std::weak_ptr<grpc::ClientContext>> running_;
};

}  // namespace lion
