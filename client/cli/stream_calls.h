// Blocking calls that share one stream, and go without it where it does not serve them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "lion/client.h"

namespace lion {

struct StreamCallOptions {
  std::chrono::milliseconds timeout{0};  // of each call; 0: none. Unary calls have the client's
  // What the server is to say first when the timeout has passed: without its answer even then, the stream is given up.
  std::chrono::milliseconds grace{1'000};
  std::chrono::milliseconds end_grace{2'000};  // how long the server may take to end a stream that is done
  // Larger requests go as unary calls: one over the server's limit would end the stream for all others. Room for what
  // BulkOptions puts into one call. 0: no streams.
  int64_t max_bytes = int64_t{8} << 20;
};

// Thread-safe. The stream is opened by the first call, and again by the next one after it has ended. A call that a
// stream's end left without an answer
//   returns UNAVAILABLE                    if that was why: trying again, and when, is the caller's decision
//   is made again, as a unary call         otherwise: the reason may lie in another call, and the server's answer to
//                                          this one alone is what counts
// and streams are not tried again with a server that does not have them, or fails at them.
template <typename Request, typename Response>
class StreamCalls {
 public:
  using Stream = RequestStream<Request, Response>;
  using OpenStream = std::function<absl::StatusOr<std::unique_ptr<Stream>>()>;
  using UnaryCall = std::function<absl::StatusOr<Response>(const Request&)>;

  StreamCalls(const StreamCallOptions& options, OpenStream open, UnaryCall unary);
  // Ends the stream in good order, or cancels it after the end_grace.
  ~StreamCalls();

  // `make` builds the request, once or twice.
  absl::StatusOr<Response> Call(const std::function<Request()>& make);

 private:
  // Null: a request of so many bytes is not for a stream.
  absl::StatusOr<std::shared_ptr<Stream>> StreamFor(int64_t bytes);
  void Drop(const std::shared_ptr<Stream>& stream);
  void LimitStreamsTo(int64_t bytes);
  absl::StatusOr<Response> CallInTime(Stream& stream, Request request);

  const StreamCallOptions options_;
  const OpenStream open_;
  const UnaryCall unary_;

  std::mutex mutex_;  // guards what follows
  int64_t max_bytes_;
  std::shared_ptr<Stream> stream_;  // null: none is open
};

extern template class StreamCalls<v1::EmbedRequest, v1::EmbedResponse>;
extern template class StreamCalls<v1::ClassifyRequest, v1::ClassifyResponse>;

}  // namespace lion
