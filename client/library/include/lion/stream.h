// Many requests through one call: no cost of a call for each, answers as they become ready, and a server that makes the
// stream wait where it would refuse a call.
//
//   absl::StatusOr<std::unique_ptr<lion::ClassifyStream>> stream = client->OpenClassifyStream();
//   for (auto& request : requests) {
//     (*stream)->Start(std::move(request), [](absl::StatusOr<lion::v1::ClassifyResponse> response) { ... });
//   }
//   absl::Status status = (*stream)->Finish();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lion/v1/lion.pb.h"

namespace grpc {
class Channel;
}

namespace lion {

// Start blocks while as much as this is unanswered. Too small starves the server's batches.
struct StreamOptions {
  int max_in_flight = 64;                           // requests
  int64_t max_in_flight_bytes = int64_t{64} << 20;  // of the requests, which may be exceeded by the last one
};

// Thread-safe, except for the destructor. Requests are sent in the order in which Start took them; answers come in any
// order. A stream has no deadline of its own: options.timeout_ms of a request counts from its receipt by the server.
//
// An error that the server gives for one request is that request's: the stream goes on. RESOURCE_EXHAUSTED (the request
// was refused, the queue is full) then has a RetryPushback of 100 ms. What ends the stream ends every request that has
// no answer, with the same status; such a request is safe to send again elsewhere. Those statuses:
//   as the server sent it  UNAVAILABLE while it is draining; RESOURCE_EXHAUSTED, without pushback: a message over the
//                          server's or this client's byte limit; UNIMPLEMENTED: a server without streams
//   as gRPC found it       UNAVAILABLE: no connection, or it was lost
//   UNAVAILABLE            the server ended the stream with OK before it had answered everything
//   INTERNAL               an answer to no request, or the second to one
//   CANCELLED              Cancel, or the destructor
template <typename Request, typename Response>
class RequestStream {
 public:
  // A response has one result per input, in order, and no `error`.
  using Done = std::function<void(absl::StatusOr<Response>)>;

  // Cancels, and waits until every `done` has returned. Not while another thread is in a method, and not from a `done`.
  ~RequestStream();
  RequestStream(const RequestStream&) = delete;
  RequestStream& operator=(const RequestStream&) = delete;

  // Sends `request`. `done` is called exactly once: on a thread of gRPC, one at a time, or on this one, before the
  // return, where the request is not sent at all:
  //   INVALID_ARGUMENT     it exceeds 2^31 - 1 bytes
  //   FAILED_PRECONDITION  Finish has been called
  //   as above             the stream has ended; UNAVAILABLE if that was with OK
  // No answer is read while a `done` runs: it must be short, and call none of the methods that block (Start, Call,
  // Finish).
  void Start(Request request, Done done);

  // Start, and the wait for the answer.
  absl::StatusOr<Response> Call(Request request);

  // Sends what Start has taken, waits for all answers and the end, and returns what the stream ended with. May be
  // called again, with the same outcome.
  absl::Status Finish();

  // Ends the stream without waiting. Does nothing if it has ended.
  void Cancel();

  // No further request will be answered. True before the first `done` that gets the stream's own status.
  bool HasEnded() const;

 private:
  friend class Client;
  class Impl;

  static absl::StatusOr<std::unique_ptr<RequestStream>> Open(const std::shared_ptr<grpc::Channel>& channel,
                                                             const StreamOptions& options);
  explicit RequestStream(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

using EmbedStream = RequestStream<v1::EmbedRequest, v1::EmbedResponse>;
using ClassifyStream = RequestStream<v1::ClassifyRequest, v1::ClassifyResponse>;

extern template class RequestStream<v1::EmbedRequest, v1::EmbedResponse>;
extern template class RequestStream<v1::ClassifyRequest, v1::ClassifyResponse>;

}  // namespace lion
