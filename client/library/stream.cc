#include "lion/stream.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/library/call_status.h"
#include "lion/v1/lion.grpc.pb.h"

namespace lion {
namespace {

void Open(v1::LionService::Stub& stub, grpc::ClientContext* context,
          grpc::ClientBidiReactor<v1::EmbedRequest, v1::EmbedResponse>* reactor) {
  stub.async()->EmbedStream(context, reactor);
}

void Open(v1::LionService::Stub& stub, grpc::ClientContext* context,
          grpc::ClientBidiReactor<v1::ClassifyRequest, v1::ClassifyResponse>* reactor) {
  stub.async()->ClassifyStream(context, reactor);
}

absl::Status CheckOptions(const StreamOptions& options) {
  if (options.max_in_flight < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max_in_flight is ", options.max_in_flight, "; expected 1 or more"));
  }
  if (options.max_in_flight_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_in_flight_bytes is ", options.max_in_flight_bytes, "; expected 1 or more"));
  }
  return absl::OkStatus();
}

}  // namespace

// One read is always under way, until it fails; one write at most, started by whichever thread finds that it is time.
// Operations from outside gRPC's own callbacks need a hold: there is one, for the writes, and it goes with the last.
template <typename Request, typename Response>
class RequestStream<Request, Response>::Impl final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  Impl(const std::shared_ptr<grpc::Channel>& channel, const StreamOptions& options)
      : options_(options), stub_(v1::LionService::NewStub(channel)) {
    lion::Open(*stub_, &context_, this);
    this->AddHold();
    this->StartRead(&response_);
    this->StartCall();
  }

  ~Impl() override {
    Cancel();
    WaitForEnd();
  }

  void Start(Request request, Done done) {
    const size_t bytes = request.ByteSizeLong();
    if (bytes > static_cast<size_t>(std::numeric_limits<int>::max())) {  // gRPC would abort the process
      done(absl::InvalidArgumentError(absl::StrCat("the request has ", bytes, " bytes; expected 2^31 - 1 at most")));
      return;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finishing_ || ended_ || HasRoom(); });
    if (finishing_ || ended_) {
      absl::Status status = end_;
      if (status.ok()) {
        status = finishing_ ? absl::FailedPreconditionError("the stream takes no request after Finish")
                            : absl::UnavailableError("the server has ended the stream");
      }
      lock.unlock();
      done(std::move(status));
      return;
    }
    const auto size = static_cast<int64_t>(bytes);
    unanswered_.emplace(next_sequence_++, Unanswered{std::move(done), request.inputs_size(), size});
    unanswered_bytes_ += size;
    to_write_.push_back(std::move(request));
    WriteNext(lock);
  }

  absl::Status Finish() {
    {
      std::unique_lock lock(mutex_);
      if (!ended_) finishing_ = true;
      changed_.notify_all();
      WriteNext(lock);
    }
    WaitForEnd();
    const std::lock_guard lock(mutex_);
    return end_;
  }

  void Cancel() { Break(absl::CancelledError("the stream was cancelled")); }

  bool HasEnded() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  struct Unanswered {
    Done done;
    int inputs = 0;
    int64_t bytes = 0;
  };

  void OnWriteDone(bool ok) override {
    Request written;  // freed without the lock
    std::unique_lock lock(mutex_);
    writing_ = false;
    written = std::move(to_write_.front());
    to_write_.pop_front();
    if (!ok) broken_ = true;
    WriteNext(lock);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      StopWriting();
      return;
    }
    const uint64_t sequence = response_.sequence();
    typename std::map<uint64_t, Unanswered>::node_type request;
    {
      const std::lock_guard lock(mutex_);
      if (sequence < writes_) request = unanswered_.extract(sequence);
      if (request) {
        unanswered_bytes_ -= request.mapped().bytes;
        changed_.notify_all();
      }
    }
    if (!request) {
      Break(absl::InternalError(
          absl::StrCat("the server sent an answer to request ", sequence, ", which is not waiting for one")));
      StopWriting();  // what gRPC would say at the next read, which is not made
      return;
    }
    absl::Status status = response_.has_error() ? ToStreamStatus(response_.error())
                                                : CheckResultCount(response_.results_size(), request.mapped().inputs);
    if (status.ok()) {
      request.mapped().done(std::move(response_));
    } else {
      request.mapped().done(std::move(status));
    }
    this->StartRead(&response_);
  }

  // After all other callbacks. The last that is done here lets the destructor go on.
  void OnDone(const grpc::Status& status) override {
    std::map<uint64_t, Unanswered> unanswered;
    absl::Status end;
    {
      const std::lock_guard lock(mutex_);
      unanswered.swap(unanswered_);
      end = broken_by_.ok() ? ToStatus(status, context_) : broken_by_;
      if (end.ok() && !unanswered.empty()) {
        end = absl::UnavailableError(
            absl::StrCat("the server ended the stream with OK and ", unanswered.size(), " requests unanswered"));
      }
      end_ = end;
      ended_ = true;
      to_write_.clear();
      changed_.notify_all();
    }
    for (auto& [sequence, request] : unanswered) request.done(end);
    unanswered.clear();
    const std::lock_guard lock(mutex_);
    all_done_ = true;
    changed_.notify_all();
  }

  bool HasRoom() const {
    return unanswered_.size() < static_cast<size_t>(options_.max_in_flight) &&
           unanswered_bytes_ < options_.max_in_flight_bytes;
  }

  // Starts what there is to start, and unlocks.
  void WriteNext(std::unique_lock<std::mutex>& lock) {
    if (writing_ || writes_over_) return;
    if (!broken_ && !to_write_.empty()) {
      writing_ = true;
      ++writes_;
      const Request* request = &to_write_.front();
      lock.unlock();  // gRPC serialises within the call
      this->StartWrite(request);
    } else if (broken_ || finishing_) {
      writes_over_ = true;
      const bool half_close = !broken_;
      lock.unlock();
      if (half_close) this->StartWritesDone();
      this->RemoveHold();
    }
  }

  void StopWriting() {
    std::unique_lock lock(mutex_);
    broken_ = true;
    WriteNext(lock);
  }

  void Break(const absl::Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      if (broken_by_.ok()) broken_by_ = status;
    }
    context_.TryCancel();
  }

  void WaitForEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return all_done_; });
  }

  const StreamOptions options_;
  const std::unique_ptr<v1::LionService::Stub> stub_;
  grpc::ClientContext context_;
  Response response_;  // of the read under way

  // Guards what follows, except that the front of `to_write_` is gRPC's while `writing_`.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> to_write_;
  std::map<uint64_t, Unanswered> unanswered_;  // by sequence
  int64_t unanswered_bytes_ = 0;
  uint64_t next_sequence_ = 0;
  uint64_t writes_ = 0;       // started
  bool writing_ = false;      // from the decision to write until OnWriteDone
  bool finishing_ = false;    // Finish came before the end
  bool broken_ = false;       // nothing can be written any more
  bool writes_over_ = false;  // the hold is gone
  absl::Status broken_by_;    // not OK: why this side cancelled
  bool ended_ = false;
  absl::Status end_;       // OK until ended
  bool all_done_ = false;  // nothing of gRPC's touches this object any more
};

template <typename Request, typename Response>
absl::StatusOr<std::unique_ptr<RequestStream<Request, Response>>> RequestStream<Request, Response>::Open(
    const std::shared_ptr<grpc::Channel>& channel, const StreamOptions& options) {
  absl::Status status = CheckOptions(options);
  if (!status.ok()) return status;
  return std::unique_ptr<RequestStream>(new RequestStream(std::make_unique<Impl>(channel, options)));
}

template <typename Request, typename Response>
RequestStream<Request, Response>::RequestStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

template <typename Request, typename Response>
RequestStream<Request, Response>::~RequestStream() = default;

template <typename Request, typename Response>
void RequestStream<Request, Response>::Start(Request request, Done done) {
  impl_->Start(std::move(request), std::move(done));
}

template <typename Request, typename Response>
absl::StatusOr<Response> RequestStream<Request, Response>::Call(Request request) {
  const auto answer = std::make_shared<std::promise<absl::StatusOr<Response>>>();  // set_value may outlast get
  auto future = answer->get_future();
  impl_->Start(std::move(request),
               [answer](absl::StatusOr<Response> response) { answer->set_value(std::move(response)); });
  return future.get();
}

template <typename Request, typename Response>
absl::Status RequestStream<Request, Response>::Finish() {
  return impl_->Finish();
}

template <typename Request, typename Response>
void RequestStream<Request, Response>::Cancel() {
  impl_->Cancel();
}

template <typename Request, typename Response>
bool RequestStream<Request, Response>::HasEnded() const {
  return impl_->HasEnded();
}

template class RequestStream<v1::EmbedRequest, v1::EmbedResponse>;
template class RequestStream<v1::ClassifyRequest, v1::ClassifyResponse>;

}  // namespace lion
