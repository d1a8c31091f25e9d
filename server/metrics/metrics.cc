#include "server/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace lion {
namespace {

using Labels = std::map<std::string, std::string>;
using Buckets = prometheus::Histogram::BucketBoundaries;

constexpr char kUnknown[] = "unknown";
constexpr int kStatusCodes = 17;  // of gRPC, OK included
constexpr const char* kStatusCodeNames[kStatusCodes] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

// From a small image alone to a long document behind a queue.
const Buckets kSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30};
const Buckets kInputs = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
const Buckets kTokens = {16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

double Seconds(int64_t ns) { return 1e-9 * static_cast<double>(ns); }

}  // namespace

std::string_view RpcMethodName(RpcMethod method) {
  constexpr std::string_view kNames[] = {"ListModels",        "GetModel",           "Embed",
                                         "Classify",          "FillMask",           "Tokenize",
                                         "EmbedStream",       "ClassifyStream",     "ModelInfer",
                                         "ModelStreamInfer",  "tei.Embed",          "tei.EmbedStream",
                                         "tei.EmbedAll",      "tei.EmbedAllStream", "tei.Predict",
                                         "tei.PredictStream", "tei.PredictPair",    "tei.PredictPairStream",
                                         "tei.Rerank",        "tei.Tokenize",       "tei.TokenizeStream"};
  static_assert(std::size(kNames) == kRpcMethods);
  return kNames[static_cast<size_t>(method)];
}

std::string_view RejectReasonName(RejectReason reason) {
  constexpr std::string_view kNames[kRejectReasons] = {"overloaded", "unavailable", "deadline", "cancelled"};
  return kNames[static_cast<size_t>(reason)];
}

std::optional<RejectReason> RejectReasonOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kResourceExhausted:
      return RejectReason::kOverloaded;
    case absl::StatusCode::kUnavailable:
      return RejectReason::kUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return RejectReason::kDeadline;
    case absl::StatusCode::kCancelled:
      return RejectReason::kCancelled;
    default:
      return std::nullopt;
  }
}

ModelMetrics& ModelMetrics::None() {
  static auto* const none = new ModelMetrics;
  return *none;
}

namespace {

class RetirableMetrics : public ModelMetrics {
 public:
  virtual void RemoveReady() = 0;
};

using NameAndVersion = std::pair<std::string, std::string>;
struct Retired {
  NameAndVersion model;
  int pages_left = Metrics::kLastPages;
};
struct Reloads {
  prometheus::Counter* success = nullptr;
  prometheus::Counter* failure = nullptr;
};

}  // namespace

class Metrics::Impl {
 public:
  Impl(const std::string& version, const std::string& backend) {
    prometheus::BuildGauge()
        .Name("lion_build_info")
        .Help("1; what runs here is in the labels")
        .Register(*registry)
        .Add({{"version", version}, {"backend", backend}})
        .Set(1);
    unauthenticated = &Counter("lion_unauthenticated_total", "Calls without one of the server's tokens").Add({});
  }

  const std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Counter>& requests =
      Counter("lion_requests_total", "Calls and requests of streams that were answered, by status code");
  prometheus::Family<prometheus::Histogram>& request_seconds =
      Histogram("lion_request_duration_seconds", "From arrival to answer");
  prometheus::Family<prometheus::Histogram>& preprocess_seconds =
      Histogram("lion_preprocess_duration_seconds", "Decoding and resizing an image, or tokenizing a text");
  prometheus::Family<prometheus::Histogram>& queue_seconds =
      Histogram("lion_queue_duration_seconds", "An input's waiting to be prepared and for a batch");
  prometheus::Family<prometheus::Histogram>& compute_seconds =
      Histogram("lion_compute_duration_seconds", "The forward pass of a batch");
  prometheus::Family<prometheus::Histogram>& batch_size = Histogram("lion_batch_size", "Inputs in a batch");
  prometheus::Family<prometheus::Histogram>& batch_tokens = Histogram("lion_batch_tokens", "Tokens in a batch");
  prometheus::Family<prometheus::Counter>& rejected =
      Counter("lion_rejected_total", "Inputs that were refused or dropped without being computed");
  prometheus::Family<prometheus::Counter>& non_finite =
      Counter("lion_nonfinite_total", "Inputs whose result was not finite, and was not sent");
  prometheus::Family<prometheus::Gauge>& in_flight =
      Gauge("lion_inflight_requests", "Calls and requests of streams that are not answered yet");
  prometheus::Family<prometheus::Gauge>& queue_depth = Gauge("lion_queue_depth", "Inputs that wait for a batch");
  prometheus::Family<prometheus::Gauge>& ready = Gauge("lion_model_ready", "1 while the model takes requests");

  prometheus::Counter* unauthenticated = nullptr;
  prometheus::Family<prometheus::Counter>& reload_counts =
      Counter("lion_model_reloads_total", "Models that were loaded while the server ran, or could not be");

  // Guards what is below.
  std::mutex mutex;
  std::map<NameAndVersion, std::unique_ptr<RetirableMetrics>> models;
  std::deque<Retired> retired;  // the first is the oldest
  std::map<std::string, Reloads> reloads;

  void Erase(const NameAndVersion& model) {
    models.erase(model);
    std::erase_if(retired, [&model](const Retired& one) { return one.model == model; });
  }

 private:
  prometheus::Family<prometheus::Counter>& Counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry);
  }
  prometheus::Family<prometheus::Histogram>& Histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry);
  }
  prometheus::Family<prometheus::Gauge>& Gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry);
  }
};

namespace {

// `Families`: Metrics::Impl, whose name is private.
template <class Families>
class Series : public RetirableMetrics {
 public:
  Series(Families& families, const Labels& labels)
      : families_(families),
        preprocess_seconds_(families.preprocess_seconds.Add(labels, kSeconds)),
        queue_seconds_(families.queue_seconds.Add(labels, kSeconds)),
        compute_seconds_(families.compute_seconds.Add(labels, kSeconds)),
        batch_size_(families.batch_size.Add(labels, kInputs)),
        batch_tokens_(families.batch_tokens.Add(labels, kTokens)),
        non_finite_(families.non_finite.Add(labels)),
        in_flight_(families.in_flight.Add(labels)),
        queue_depth_(families.queue_depth.Add(labels)),
        ready_(&families.ready.Add(labels)) {
    for (int method = 0; method < kRpcMethods; ++method) {
      Labels of_method = labels;
      of_method["method"] = RpcMethodName(static_cast<RpcMethod>(method));
      request_seconds_[method] = &families.request_seconds.Add(of_method, kSeconds);
      for (int code = 0; code < kStatusCodes; ++code) {
        of_method["code"] = kStatusCodeNames[code];
        requests_[method][code] = &families.requests.Add(of_method);
      }
    }
    for (int reason = 0; reason < kRejectReasons; ++reason) {
      Labels of_reason = labels;
      of_reason["reason"] = RejectReasonName(static_cast<RejectReason>(reason));
      rejected_[reason] = &families.rejected.Add(of_reason);
    }
  }

  ~Series() override {
    for (int method = 0; method < kRpcMethods; ++method) {
      families_.request_seconds.Remove(request_seconds_[method]);
      for (prometheus::Counter* counter : requests_[method]) families_.requests.Remove(counter);
    }
    for (prometheus::Counter* counter : rejected_) families_.rejected.Remove(counter);
    families_.preprocess_seconds.Remove(&preprocess_seconds_);
    families_.queue_seconds.Remove(&queue_seconds_);
    families_.compute_seconds.Remove(&compute_seconds_);
    families_.batch_size.Remove(&batch_size_);
    families_.batch_tokens.Remove(&batch_tokens_);
    families_.non_finite.Remove(&non_finite_);
    families_.in_flight.Remove(&in_flight_);
    families_.queue_depth.Remove(&queue_depth_);
    RemoveReady();
  }

  void RemoveReady() override {
    if (ready_ != nullptr) families_.ready.Remove(std::exchange(ready_, nullptr));
  }

  void CountRequest(RpcMethod method, absl::StatusCode code, int64_t total_ns) override {
    const int raw = static_cast<int>(code);
    const int known = raw >= 0 && raw < kStatusCodes ? raw : static_cast<int>(absl::StatusCode::kUnknown);
    requests_[static_cast<size_t>(method)][known]->Increment();
    request_seconds_[static_cast<size_t>(method)]->Observe(Seconds(total_ns));
  }
  void ObserveInput(int64_t preprocess_ns, int64_t queue_ns) override {
    preprocess_seconds_.Observe(Seconds(preprocess_ns));
    queue_seconds_.Observe(Seconds(queue_ns));
  }
  void ObserveBatch(int64_t inputs, int64_t tokens, int64_t compute_ns) override {
    batch_size_.Observe(static_cast<double>(inputs));
    batch_tokens_.Observe(static_cast<double>(tokens));
    compute_seconds_.Observe(Seconds(compute_ns));
  }
  void CountRejected(RejectReason reason, int64_t inputs) override {
    rejected_[static_cast<size_t>(reason)]->Increment(static_cast<double>(inputs));
  }
  void CountNonFinite() override { non_finite_.Increment(); }
  void AddInFlight(int64_t requests) override { in_flight_.Increment(static_cast<double>(requests)); }
  void AddQueued(int64_t inputs) override { queue_depth_.Increment(static_cast<double>(inputs)); }
  void SetReady(bool ready) override { ready_->Set(ready ? 1 : 0); }

 private:
  Families& families_;
  std::array<std::array<prometheus::Counter*, kStatusCodes>, kRpcMethods> requests_;
  std::array<prometheus::Histogram*, kRpcMethods> request_seconds_;
  std::array<prometheus::Counter*, kRejectReasons> rejected_;
  prometheus::Histogram& preprocess_seconds_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& compute_seconds_;
  prometheus::Histogram& batch_size_;
  prometheus::Histogram& batch_tokens_;
  prometheus::Counter& non_finite_;
  prometheus::Gauge& in_flight_;
  prometheus::Gauge& queue_depth_;
  prometheus::Gauge* ready_;  // until it is retired
};

}  // namespace

Metrics::Metrics(const std::string& version, const std::string& backend)
    : impl_(std::make_unique<Impl>(version, backend)), unknown_(&ForModel(kUnknown, "")) {
  TrackReloads(kUnknown, true);
}

Metrics::~Metrics() = default;

ModelMetrics& Metrics::ForModel(const std::string& name, const std::string& version) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  const NameAndVersion key = {name, version};
  // The same version once more: it begins at 0.
  const auto is_key = [&key](const Retired& one) { return one.model == key; };
  if (std::any_of(impl_->retired.begin(), impl_->retired.end(), is_key)) impl_->Erase(key);
  std::unique_ptr<RetirableMetrics>& series = impl_->models[key];
  if (series == nullptr) {
    series = std::make_unique<Series<Impl>>(*impl_, Labels{{"model", name}, {"version", version}});
  }
  return *series;
}

void Metrics::CountUnauthenticated() { impl_->unauthenticated->Increment(); }

void Metrics::Retire(const std::string& name, const std::string& version) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  const auto found = impl_->models.find({name, version});
  if (found == impl_->models.end()) return;
  found->second->RemoveReady();
  impl_->retired.push_back({found->first});
  if (impl_->retired.size() > kMostRetired) impl_->Erase(NameAndVersion(impl_->retired.front().model));
}

void Metrics::Forget(const std::string& name, const std::string& version) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->Erase({name, version});
}

void Metrics::TrackReloads(const std::string& name, bool exists) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  const auto found = impl_->reloads.find(name);
  if (exists == (found != impl_->reloads.end())) return;
  if (exists) {
    impl_->reloads[name] = {&impl_->reload_counts.Add({{"model", name}, {"result", "success"}}),
                            &impl_->reload_counts.Add({{"model", name}, {"result", "failure"}})};
    return;
  }
  impl_->reload_counts.Remove(found->second.success);
  impl_->reload_counts.Remove(found->second.failure);
  impl_->reloads.erase(found);
}

void Metrics::CountReload(const std::string& name, bool success) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  const auto found = impl_->reloads.find(name);
  const Reloads& reloads = found != impl_->reloads.end() ? found->second : impl_->reloads.at(kUnknown);
  (success ? reloads.success : reloads.failure)->Increment();
}

std::string Metrics::Text() const {
  std::string text = prometheus::TextSerializer().Serialize(impl_->registry->Collect());
  std::lock_guard<std::mutex> lock(impl_->mutex);
  for (Retired& one : impl_->retired) --one.pages_left;
  while (!impl_->retired.empty() && impl_->retired.front().pages_left <= 0) {
    impl_->Erase(NameAndVersion(impl_->retired.front().model));
  }
  return text;
}

}  // namespace lion
