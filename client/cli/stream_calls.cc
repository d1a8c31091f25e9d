#include "client/cli/stream_calls.h"

#include <algorithm>
#include <future>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

bool IsTooLarge(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && !RetryPushback(status).has_value();
}

}  // namespace

template <typename Request, typename Response>
StreamCalls<Request, Response>::StreamCalls(const StreamCallOptions& options, OpenStream open, UnaryCall unary)
    : options_(options), open_(std::move(open)), unary_(std::move(unary)), max_bytes_(options.max_bytes) {}

template <typename Request, typename Response>
StreamCalls<Request, Response>::~StreamCalls() {
  if (stream_ == nullptr) return;
  const std::future<void> end = std::async(std::launch::async, [this] { stream_->Finish().IgnoreError(); });
  if (end.wait_for(options_.end_grace) != std::future_status::ready) stream_->Cancel();  // which ends Finish
}

template <typename Request, typename Response>
absl::StatusOr<Response> StreamCalls<Request, Response>::Call(const std::function<Request()>& make) {
  Request request = make();
  const auto bytes = static_cast<int64_t>(request.ByteSizeLong());
  const absl::StatusOr<std::shared_ptr<Stream>> stream = StreamFor(bytes);
  if (!stream.ok()) return stream.status();
  if (*stream == nullptr) return unary_(request);
  absl::StatusOr<Response> response = CallInTime(**stream, std::move(request));
  if (response.ok() || !(*stream)->HasEnded()) return response;

  Drop(*stream);
  const absl::Status end = (*stream)->Finish();  // known by now
  const bool is_its_own = response.status() != end;
  if (is_its_own || absl::IsUnavailable(end)) return response;
  // CANCELLED: because of another call's timeout.
  if (!IsTooLarge(end) && !absl::IsCancelled(end)) LimitStreamsTo(0);
  response = unary_(make());
  if (IsTooLarge(response.status())) LimitStreamsTo(bytes / 2);
  return response;
}

template <typename Request, typename Response>
absl::StatusOr<std::shared_ptr<RequestStream<Request, Response>>> StreamCalls<Request, Response>::StreamFor(
    int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (max_bytes_ == 0 || bytes > max_bytes_) return nullptr;
  if (stream_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Stream>> opened = open_();
    if (!opened.ok()) return opened.status();
    stream_ = *std::move(opened);
  }
  return stream_;
}

template <typename Request, typename Response>
void StreamCalls<Request, Response>::LimitStreamsTo(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  max_bytes_ = std::min(max_bytes_, bytes);
}

// Its last call destroys it.
template <typename Request, typename Response>
void StreamCalls<Request, Response>::Drop(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  if (stream_ == stream) stream_.reset();
}

template <typename Request, typename Response>
absl::StatusOr<Response> StreamCalls<Request, Response>::CallInTime(Stream& stream, Request request) {
  const auto answer = std::make_shared<std::promise<absl::StatusOr<Response>>>();  // set_value may outlast get
  std::future<absl::StatusOr<Response>> future = answer->get_future();
  const int64_t timeout_ms = options_.timeout.count();
  // 0xffffffff ms are 49 days.
  request.mutable_options()->set_timeout_ms(
      static_cast<uint32_t>(std::min<int64_t>(timeout_ms, std::numeric_limits<uint32_t>::max())));
  stream.Start(std::move(request),
               [answer](absl::StatusOr<Response> response) { answer->set_value(std::move(response)); });
  if (timeout_ms == 0) return future.get();
  if (future.wait_for(options_.timeout + options_.grace) == std::future_status::ready) return future.get();
  stream.Cancel();
  absl::StatusOr<Response> response = future.get();
  if (response.ok()) return response;
  return absl::DeadlineExceededError(absl::StrCat("no answer within ", timeout_ms, " ms"));
}

template class StreamCalls<v1::EmbedRequest, v1::EmbedResponse>;
template class StreamCalls<v1::ClassifyRequest, v1::ClassifyResponse>;

}  // namespace lion
