// Arbitrary bytes as an inference request, through conversion, decoding, batching and a puppet engine to a response.
#include <optional>

#include "server/rpc/convert.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/puppet_service.h"

namespace lion {
namespace {

ModelService& Service(Modality modality) {
  static auto* const kResources = new fuzz::PuppetResources;
  static auto* const kImages = fuzz::MakePuppetService(kResources, Modality::kVision).release();
  static auto* const kTexts = fuzz::MakePuppetService(kResources, Modality::kText).release();
  return modality == Modality::kText ? *kTexts : *kImages;
}

// Callbacks that the service owes, and those that came.
std::atomic<int64_t> owed = 0;
std::atomic<int64_t> called = 0;

// Runs the call and waits for its reply, which may be that it is refused.
InferenceReply Await(ModelService& service, InferenceCall call) {
  struct Answer {
    Mutex mutex;
    CondVar changed;
    std::optional<InferenceReply> reply ABSL_GUARDED_BY(mutex);
  };
  // Also held by the callback: one that comes twice, or late, must find it.
  const auto answer = std::make_shared<Answer>();
  fuzz::CheckEqual(called, owed, "callbacks of all calls until now");
  const absl::Status status =
      service.Run(std::move(call), std::make_shared<std::atomic<bool>>(false), [answer](InferenceReply reply) {
        MutexLock lock(answer->mutex);
        ++called;
        fuzz::Check(!answer->reply.has_value(), "a call has one reply");
        answer->reply = std::move(reply);
        answer->changed.NotifyAll();
      });
  InferenceReply reply;
  reply.status = status;
  if (!status.ok()) return reply;
  ++owed;
  MutexLock lock(answer->mutex);
  while (!answer->reply.has_value()) answer->changed.Wait(answer->mutex);
  return *std::move(answer->reply);
}

// The codes that the API documents for a call, or for one input of it, with a model that is there and a device that
// works.
void CheckCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
      return;
    case absl::StatusCode::kInternal:
      fuzz::Check(status.message().find("the output is not finite") != absl::string_view::npos, "INTERNAL");
      return;
    default:
      fuzz::Check(false, status.ToString().c_str());
  }
}

// A row for each vector of the engine, as long as was asked for.
void CheckShape(const ModelConfig& config, const v1::EmbedRequest& request, const v1::EmbedResult& result) {
  const v1::Embedding& embedding = result.embedding();
  const int64_t floats = embedding.values_size() + static_cast<int64_t>(embedding.data().size() / sizeof(float));
  fuzz::CheckEqual(floats, int64_t{embedding.rows()} * embedding.dimensions(), "floats of an embedding");
  fuzz::CheckEqual(embedding.rows(), request.pooling() == v1::POOLING_NONE ? result.tokens() : 1, "rows");
  const int64_t width = config.width;
  fuzz::CheckEqual(embedding.dimensions(), request.dimensions() == 0 ? width : request.dimensions(), "dimensions");
  fuzz::CheckAtMost(embedding.dimensions(), width, "dimensions");
}

void CheckShape(const ModelConfig& config, const v1::ClassifyRequest& request, const v1::ClassifyResult& result) {
  const int64_t classes = config.classes;
  const int64_t wanted = request.top_k() == 0 ? classes : std::min<int64_t>(request.top_k(), classes);
  fuzz::CheckEqual(result.classification().scores_size(), wanted, "scores");
  for (const v1::ClassScore& score : result.classification().scores()) {
    fuzz::Check(score.index() < classes && !score.label().empty(), "a score's class");
  }
}

template <class Request, class Response>
void Serve(ModelService& service, const uint8_t* data, size_t size) {
  Request request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  ByteAccount account(int64_t{1} << 20);
  {
    absl::StatusOr<ByteAccount::Charge> charge = account.Take(static_cast<int64_t>(size));
    fuzz::Check(charge.ok(), "an empty account has room");
    InferenceCall call;
    call.arrival_ns = SteadyClock().NowNs();
    call.memory = &*charge;
    const absl::Status status = ConvertRequest(request, service, &call);
    fuzz::CheckRefusal(status, absl::StatusCode::kInvalidArgument, "converting a request");
    if (!status.ok()) return;
    fuzz::CheckEqual(static_cast<int64_t>(call.inputs.size()), request.inputs_size(), "converted inputs");

    InferenceReply reply = Await(service, std::move(call));
    CheckCode(reply.status);
    if (reply.status.ok()) {
      fuzz::CheckEqual(static_cast<int64_t>(reply.results.size()), request.inputs_size(), "results");
      Response response;
      for (InputReply& input : reply.results) {
        CheckCode(input.status);
        fuzz::Check(input.status.ok() || request.options().partial_results(), "a bad input fails the call");
        auto* result = response.add_results();
        const bool ok = input.status.ok();
        ConvertReply(request, service, std::move(input), result);
        fuzz::Check(result->has_error() != ok, "a result or an error");
        if (ok) CheckShape(service.engine().config(), request, *result);
      }
      // A string that is not UTF-8 would be written, but not read.
      fuzz::Check(Response().ParseFromString(response.SerializeAsString()), "the caller can read the response");
    }
  }
  fuzz::CheckEqual(account.in_use_bytes(), 0, "bytes in the account after the call");
}

}  // namespace
}  // namespace lion

// The last byte says which call it is, and to which model.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  if (size == 0) return 0;
  const uint8_t choice = data[--size];
  ModelService& service = Service((choice & 2) == 0 ? Modality::kVision : Modality::kText);
  if ((choice & 1) == 0) {
    Serve<v1::EmbedRequest, v1::EmbedResponse>(service, data, size);
  } else {
    Serve<v1::ClassifyRequest, v1::ClassifyResponse>(service, data, size);
  }
  return 0;
}
