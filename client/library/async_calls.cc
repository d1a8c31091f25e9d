#include "client/library/async_calls.h"

#include <grpcpp/generic/generic_stub.h>

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/library/client_impl.h"

namespace lion {

AsyncCalls::Handle AsyncCalls::Add(const std::shared_ptr<grpc::ClientContext>& context) {
  const std::lock_guard lock(mutex_);
  return running_.insert(running_.end(), context);
}

void AsyncCalls::Remove(Handle handle) {
  const std::lock_guard lock(mutex_);
  running_.erase(handle);
  if (running_.empty()) changed_.notify_all();
}

void AsyncCalls::CancelAll() {
  std::vector<std::shared_ptr<grpc::ClientContext>> contexts;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& context : running_) contexts.push_back(context.lock());
  }
  for (const auto& context : contexts) {
    if (context != nullptr) context->TryCancel();
  }
}

void AsyncCalls::WaitUntilNone() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_.empty(); });
}

template <typename Request>
struct Prepared<Request>::Wire {
  absl::Status status;  // not OK: `bytes` is empty
  grpc::ByteBuffer bytes;
  int inputs = 0;
};

template <typename Request>
Prepared<Request>::Prepared(const Request& request) {
  auto wire = std::make_shared<Wire>();
  wire->inputs = request.inputs_size();
  const size_t size = request.ByteSizeLong();
  if (size > static_cast<size_t>(std::numeric_limits<int>::max())) {
    wire->status = absl::InvalidArgumentError(
        absl::StrCat("the request has ", size, " bytes; a message can hold ", std::numeric_limits<int>::max()));
  } else {
    bool own_buffer = false;
    const grpc::Status status = grpc::SerializationTraits<Request>::Serialize(request, &wire->bytes, &own_buffer);
    if (!status.ok()) wire->status = absl::InternalError(status.error_message());
  }
  wire_ = std::move(wire);
}

template <typename Request>
int64_t Prepared<Request>::bytes() const {
  return static_cast<int64_t>(wire_->bytes.Length());
}

template class Prepared<v1::EmbedRequest>;
template class Prepared<v1::ClassifyRequest>;
template class Prepared<v1::FillMaskRequest>;
template class Prepared<v1::TokenizeRequest>;

namespace {

// One running call: gRPC's callback owns it.
template <typename Response>
struct Running {
  const std::shared_ptr<grpc::ClientContext> context = std::make_shared<grpc::ClientContext>();
  std::shared_ptr<const grpc::ByteBuffer> request;
  int inputs = 0;
  Response response;
  std::function<void(absl::StatusOr<Response>)> done;
  AsyncCalls::Handle handle;
};

// Not through the generated stub: that aborts on a request that cannot be serialised, and serialises on every call.
template <typename Response, typename Impl>
void Start(Impl& impl, const char* method, const absl::Status& serialized,
           const std::shared_ptr<const grpc::ByteBuffer>& request, int inputs, const CallOptions& options,
           std::function<void(absl::StatusOr<Response>)> done) {
  if (!serialized.ok()) return done(serialized);
  auto running = std::make_shared<Running<Response>>();
  running->request = request;
  running->inputs = inputs;
  running->done = std::move(done);
  impl.SetDeadline(options, *running->context);
  running->handle = impl.async_calls.Add(running->context);
  grpc::TemplatedGenericStub<grpc::ByteBuffer, Response> stub(impl.channel);
  stub.UnaryCall(running->context.get(), method, grpc::StubOptions(), running->request.get(), &running->response,
                 [&impl, running](const grpc::Status& status) mutable {
                   absl::Status result = ToStatus(status, *running->context);
                   if (result.ok()) result = CheckResultCount(running->response.results_size(), running->inputs);
                   if (result.ok()) {
                     running->done(std::move(running->response));
                   } else {
                     running->done(std::move(result));
                   }
                   const AsyncCalls::Handle handle = running->handle;
                   running.reset();
                   impl.async_calls.Remove(handle);
                 });
}

}  // namespace

void Client::EmbedAsync(const Prepared<v1::EmbedRequest>& request, const CallOptions& options,
                        std::function<void(absl::StatusOr<v1::EmbedResponse>)> done) {
  const auto& wire = request.wire_;
  Start<v1::EmbedResponse>(*impl_, "/lion.v1.LionService/Embed", wire->status, {wire, &wire->bytes}, wire->inputs,
                           options, std::move(done));
}

void Client::ClassifyAsync(const Prepared<v1::ClassifyRequest>& request, const CallOptions& options,
                           std::function<void(absl::StatusOr<v1::ClassifyResponse>)> done) {
  const auto& wire = request.wire_;
  Start<v1::ClassifyResponse>(*impl_, "/lion.v1.LionService/Classify", wire->status, {wire, &wire->bytes}, wire->inputs,
                              options, std::move(done));
}

void Client::FillMaskAsync(const Prepared<v1::FillMaskRequest>& request, const CallOptions& options,
                           std::function<void(absl::StatusOr<v1::FillMaskResponse>)> done) {
  const auto& wire = request.wire_;
  Start<v1::FillMaskResponse>(*impl_, "/lion.v1.LionService/FillMask", wire->status, {wire, &wire->bytes}, wire->inputs,
                              options, std::move(done));
}

void Client::TokenizeAsync(const Prepared<v1::TokenizeRequest>& request, const CallOptions& options,
                           std::function<void(absl::StatusOr<v1::TokenizeResponse>)> done) {
  const auto& wire = request.wire_;
  Start<v1::TokenizeResponse>(*impl_, "/lion.v1.LionService/Tokenize", wire->status, {wire, &wire->bytes}, wire->inputs,
                              options, std::move(done));
}

void Client::CancelAsyncCalls() { impl_->async_calls.CancelAll(); }

}  // namespace lion
