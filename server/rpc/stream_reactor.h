// A stream of inference requests: one response each, as they become ready.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "server/mutex.h"
#include "server/pushback.h"
#include "server/rpc/exchange.h"
#include "server/rpc/messages.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/status.h"

namespace lion {

struct StreamLimits {
  // Requests read whose responses are not sent yet. Fewer than fill a batch of small inputs would slow a lone stream.
  size_t window = 256;
  // Bytes of the same. A stream that holds as much, because its reader is slow or its requests are large, is not read
  // from until it holds less; one request is always let in.
  int64_t bytes = int64_t{64} << 20;
};

// Flow control: nothing more is read while the window is full, so that a reader who does not read holds back only its
// own requests. What the server has no room for (queue, memory) waits while the stream has other requests that will
// make room or give it a next chance; without any it is refused, in its response.
//
// Every request that was read has exactly one ending: its response is sent, or the stream ends with an error. Ends with
// OK once the client has sent its last and all is answered; with UNAVAILABLE after Drain, once all that was read is
// answered. Lives until gRPC is done with it and the last answer has returned.
//
// `Rpc`, besides what Exchange wants of it:
//   static constexpr bool kInOrder;          responses are sent in the order of the requests
//   static constexpr bool kErrorsEndStream;  a request that failed ends the stream with its error, once those before it
//                                            are answered: in order only. Otherwise its response says so:
//   static void FillError(const absl::Status&, Response*);
//   static void FillSequence(uint64_t sequence, Response*);  the request's number in the stream, from 0
//
// gRPC calls the On... methods and the services their answers from any thread. The calls to gRPC are made with the lock
// held: it does not call back from inside them.
template <class Rpc>
class StreamReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public OpenStreams::Stream {
 public:
  // What `server` and `streams` point to must outlive the stream.
  static StreamReactor* Open(const ExchangeContext& server, const StreamLimits& limits,
                             grpc::CallbackServerContext* context, OpenStreams* streams) {
    const std::shared_ptr<StreamReactor> reactor(new StreamReactor(server, limits, context, streams));
    reactor->self_ = reactor;
    // A stream alone is no call inside, so that an idle one does not hold up the draining: its requests enter one by
    // one.
    const absl::Status serving = server.registry->Enter().status();
    {
      MutexLock lock(reactor->mutex_);
      if (!serving.ok()) reactor->Fail(serving);
      reactor->Proceed();
    }
    streams->Add(reactor.get());
    return reactor.get();
  }

  void OnReadDone(bool ok) override {
    Item* item = nullptr;
    {
      MutexLock lock(mutex_);
      reading_ = false;
      if (!ok) {
        read_all_ = true;
      } else if (failure_.ok() && ending_.ok()) {
        item = TakeRequest();
        starting_ = item != nullptr;
      }
    }
    if (item != nullptr && !Start(item)) return;
    MutexLock lock(mutex_);
    if (item != nullptr) starting_ = false;
    Proceed();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      held_bytes_ -= outgoing_.front().bytes;
      outgoing_.pop_front();
      if (!ok) GiveUp();
    }
    GoOn();
  }

  void OnCancel() override {
    {
      MutexLock lock(mutex_);
      GiveUp();
    }
    GoOn();
  }

  void OnDone() override {
    streams_->Remove(this);
    self_.reset();
  }

  void Drain() override {
    MutexLock lock(mutex_);
    draining_ = true;
    Proceed();
  }

 private:
  using ExchangeOfThis = Exchange<Rpc>;
  using Response = typename Rpc::Response;
  // A try repeats what admission checks, images' headers included: not for every response of a full batch.
  static constexpr int64_t kRetryNs = 1'000'000;

  StreamReactor(const ExchangeContext& server, const StreamLimits& limits, grpc::CallbackServerContext* context,
                OpenStreams* streams)
      : server_(server),
        limits_(limits),
        context_(context),
        streams_(streams),
        facts_(FactsOf(*context, server.log, server.clock->NowNs())) {}

  // A request that was read and is not answered.
  struct Item {
    Item(uint64_t number, const ExchangeContext& server, const CallFacts& facts, int64_t arrival_ns)
        : sequence(number), exchange(std::make_shared<ExchangeOfThis>(server, facts, arrival_ns)) {}
    const uint64_t sequence;
    grpc::ByteBuffer message;
    std::shared_ptr<ExchangeOfThis> exchange;
    int64_t bytes = 0;  // of held_bytes_
  };
  // A response, with all that its request holds of the server until it is sent.
  struct Outgoing {
    grpc::ByteBuffer message;
    absl::Status ending;  // not OK: in place of a message, what ends the stream
    std::shared_ptr<ExchangeOfThis> exchange;
    int64_t bytes = 0;
  };

  // Null: there is no memory for it, which ends the stream.
  Item* TakeRequest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) try {
    const int64_t now_ns = server_.clock->NowNs();
    auto item = std::make_unique<Item>(next_sequence_, server_, facts_, now_ns);
    item->message.Swap(&incoming_);
    item->bytes = static_cast<int64_t>(item->message.Length());
    held_bytes_ += item->bytes;
    Item* const taken = item.get();
    unanswered_.emplace(next_sequence_++, std::move(item));
    return taken;
  } catch (const std::bad_alloc&) {
    Fail(TryAgainIn(kUnknownPushbackMs, "no memory to accept the request"));
    return nullptr;
  }

  // Nobody reads any more.
  void GiveUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Fail(absl::CancelledError("cancelled by the caller"));
    while (outgoing_.size() > (writing_ ? 1 : 0)) {
      held_bytes_ -= outgoing_.back().bytes;
      outgoing_.pop_back();
    }
  }

  void Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (failure_.ok()) failure_ = status;
    AbandonUnanswered();
  }
  void AbandonUnanswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto& [sequence, item] : unanswered_) item->exchange->Abandon();
  }

  // Without the lock, with starting_ set. False: the item waits, and starting_ is no longer this thread's.
  bool Start(Item* item) {
    const uint64_t sequence = item->sequence;
    const std::shared_ptr<ExchangeOfThis> exchange = item->exchange;
    while (true) {
      const bool had_company = HasCompany();
      absl::Status status = exchange->Start(
          &item->message, [self = self_, item](InferenceReply reply) { self->Answer(item, std::move(reply)); });
      if (status.ok()) {
        Recount(sequence, exchange->charged_bytes());
        return true;
      }
      if (absl::IsResourceExhausted(status)) {
        if (Postpone(item)) return false;
        // What gave it company has ended meanwhile, and may have made room.
        if (had_company) continue;
      }
      exchange->CountRefused(status.code());
      InferenceReply refusal;
      refusal.status = std::move(status);
      Answer(item, std::move(refusal));
      return true;
    }
  }

  // Whether the stream has others, that may make room or give this one a next chance.
  bool HasCompanyLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return failure_.ok() && ending_.ok() && (unanswered_.size() > 1 || !outgoing_.empty());
  }
  bool HasCompany() const {
    MutexLock lock(mutex_);
    return HasCompanyLocked();
  }
  bool Postpone(Item* item) {
    MutexLock lock(mutex_);
    if (!HasCompanyLocked()) return false;
    waiting_ = item;
    starting_ = false;
    Proceed();
    return true;
  }

  // A request that was let in has also been charged for its response.
  void Recount(uint64_t sequence, int64_t bytes) {
    MutexLock lock(mutex_);
    const auto found = unanswered_.find(sequence);
    if (found == unanswered_.end()) return;
    held_bytes_ += bytes - found->second->bytes;
    found->second->bytes = bytes;
  }

  void Answer(Item* item, InferenceReply reply) {
    Outgoing outgoing;
    const absl::Status status = MakeResponse(*item, std::move(reply), &outgoing);
    std::shared_ptr<ExchangeOfThis> unsent;
    {
      MutexLock lock(mutex_);
      if (!status.ok()) Fail(status);
      outgoing.exchange = std::move(item->exchange);
      outgoing.bytes = outgoing.exchange->charged_bytes();
      held_bytes_ += outgoing.bytes - item->bytes;
      const uint64_t sequence = item->sequence;
      unanswered_.erase(sequence);
      if (failure_.ok() && ending_.ok()) {
        PassOn(sequence, std::move(outgoing));
      } else {
        held_bytes_ -= outgoing.bytes;
        unsent = std::move(outgoing.exchange);
      }
    }
    // Nothing of the server may be held any more once the stream can end.
    unsent.reset();
    GoOn();
  }

  // To be sent now, or when those before it are.
  void PassOn(uint64_t sequence, Outgoing outgoing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    early_.emplace(Rpc::kInOrder ? sequence : next_to_send_, std::move(outgoing));
    while (!early_.empty() && early_.begin()->first == next_to_send_) {
      Outgoing& next = early_.begin()->second;
      if (!next.ending.ok()) return EndWith(next.ending);
      outgoing_.push_back(std::move(next));
      early_.erase(early_.begin());
      ++next_to_send_;
    }
  }

  // Sends what is on its way and nothing more.
  void EndWith(const absl::Status& ending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ending_ = ending;
    for (const auto& [sequence, outgoing] : early_) held_bytes_ -= outgoing.bytes;
    early_.clear();
    AbandonUnanswered();
  }

  // Once something has become free: starts what waited for it, and whatever else can go on. Without the lock.
  void GoOn() {
    Item* item = nullptr;
    {
      MutexLock lock(mutex_);
      const int64_t now_ns = server_.clock->NowNs();
      if (waiting_ == nullptr || (HasCompanyLocked() && now_ns - last_try_ns_ < kRetryNs)) return Proceed();
      last_try_ns_ = now_ns;
      item = std::exchange(waiting_, nullptr);
      starting_ = true;
    }
    if (!Start(item)) return;
    MutexLock lock(mutex_);
    starting_ = false;
    Proceed();
  }

  // An error ends the stream at once: there was not even memory to say that there is none.
  absl::Status MakeResponse(const Item& item, InferenceReply reply, Outgoing* outgoing) {
    item.exchange->Note(reply);
    absl::Status status = reply.status;
    if (status.ok()) {
      status = Respond(
          item, [&](Response* response) { return item.exchange->Fill(std::move(reply), response); },
          &outgoing->message);
    }
    absl::Status made;
    if (!status.ok()) {
      if constexpr (Rpc::kErrorsEndStream) {
        outgoing->ending = status;
      } else {
        made = Respond(
            item,
            [&](Response* response) {
              item.exchange->FillHead(response);
              Rpc::FillError(status, response);
              return absl::OkStatus();
            },
            &outgoing->message);
      }
    }
    item.exchange->Count(status.code());
    return made;
  }

  template <class Fill>
  static absl::Status Respond(const Item& item, const Fill& fill, grpc::ByteBuffer* message) try {
    Response response;
    if (absl::Status status = fill(&response); !status.ok()) return status;
    Rpc::FillSequence(item.sequence, &response);
    return Serialize(response, message);
  } catch (const std::bad_alloc&) {
    message->Clear();
    return TryAgainIn(kUnknownPushbackMs, "no memory for the response");
  }

  // Whatever there is to do for gRPC now.
  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    const bool live = failure_.ok();
    if (live && !writing_ && !outgoing_.empty()) {
      writing_ = true;
      this->StartWrite(&outgoing_.front().message);
    }
    const size_t unsent = unanswered_.size() + early_.size() + outgoing_.size();
    const bool room = unsent == 0 || (unsent < limits_.window && held_bytes_ < limits_.bytes);
    if (live && ending_.ok() && !reading_ && !read_all_ && !draining_ && !starting_ && waiting_ == nullptr && room) {
      reading_ = true;
      this->StartRead(&incoming_);
    }
    const bool over = !live || !ending_.ok() || read_all_ || draining_;
    if (over && unanswered_.empty() && !writing_ && (outgoing_.empty() || !live)) {
      finished_ = true;
      this->Finish(FinalStatus(Ending(), context_));
    }
  }

  absl::Status Ending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!failure_.ok()) return failure_;
    if (!ending_.ok() || read_all_) return ending_;
    return absl::UnavailableError("the server is shutting down; requests without a response may be sent elsewhere");
  }

  const ExchangeContext server_;
  const StreamLimits limits_;
  grpc::CallbackServerContext* const context_;
  OpenStreams* const streams_;
  const CallFacts facts_;
  std::shared_ptr<StreamReactor> self_;  // until OnDone

  mutable Mutex mutex_;
  grpc::ByteBuffer incoming_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::unique_ptr<Item>> unanswered_ ABSL_GUARDED_BY(mutex_);
  int64_t last_try_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  Item* waiting_ ABSL_GUARDED_BY(mutex_) = nullptr;        // one of them, for room
  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mutex_);  // the first is being sent while writing_
  int64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Outgoing> early_ ABSL_GUARDED_BY(mutex_);  // made before those that they follow
  uint64_t next_to_send_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);   // nothing is sent any more
  absl::Status ending_ ABSL_GUARDED_BY(mutex_);    // what is outgoing is sent first
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is read meanwhile, so that one at most waits
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lion
