// What the server counts and measures, as Prometheus series.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lion {

enum class RpcMethod : uint8_t {
  kListModels,
  kGetModel,
  kEmbed,
  kClassify,
  kFillMask,
  kTokenize,
  kEmbedStream,
  kClassifyStream,
  kModelInfer,
  kModelStreamInfer,
  kTeiEmbed,
  kTeiEmbedStream,
  kTeiEmbedAll,
  kTeiEmbedAllStream,
  kTeiPredict,
  kTeiPredictStream,
  kTeiPredictPair,
  kTeiPredictPairStream,
  kTeiRerank,
  kTeiTokenize,
  kTeiTokenizeStream,
};
inline constexpr int kRpcMethods = 21;
std::string_view RpcMethodName(RpcMethod method);  // "Embed"; of tei.v1: "tei.Embed"

// Why work was refused or dropped without being computed.
enum class RejectReason : uint8_t {
  kOverloaded,   // no room in a queue or in memory
  kUnavailable,  // starting, draining, device lost
  kDeadline,     // expired before it began
  kCancelled,    // given up by its caller before it began
};
inline constexpr int kRejectReasons = 4;
std::string_view RejectReasonName(RejectReason reason);  // "overloaded"
// Of an error; no value where it is the input that is at fault.
std::optional<RejectReason> RejectReasonOf(absl::StatusCode code);

// The series of one model; all exist from the start, at 0. Any thread may call any method, at the cost of an atomic
// addition or, for durations and sizes, of a short lock of that series. This class itself counts nothing.
class ModelMetrics {
 public:
  virtual ~ModelMetrics() = default;
  static ModelMetrics& None();  // for those who do not count

  // A call, or one request of a stream, has its answer. total_ns: from arrival.
  virtual void CountRequest(RpcMethod /*method*/, absl::StatusCode /*code*/, int64_t /*total_ns*/) {}
  // The stages of one input that was computed.
  virtual void ObserveInput(int64_t /*preprocess_ns*/, int64_t /*queue_ns*/) {}
  virtual void ObserveBatch(int64_t /*inputs*/, int64_t /*tokens*/, int64_t /*compute_ns*/) {}
  virtual void CountRejected(RejectReason /*reason*/, int64_t /*inputs*/) {}
  virtual void CountNonFinite() {}                   // an input whose result was not finite
  virtual void AddInFlight(int64_t /*requests*/) {}  // may be negative, here and below
  virtual void AddQueued(int64_t /*inputs*/) {}
  virtual void SetReady(bool /*ready*/) {}
};

// All series of a process. Labels are bounded: a model's name is one of those that were loaded, or "unknown".
class Metrics {
 public:
  // `version`, `backend`: of lion_build_info.
  Metrics(const std::string& version, const std::string& backend);
  ~Metrics();

  // Made at the first call for that name and version; lives until Retire or Forget, or as long as this.
  ModelMetrics& ForModel(const std::string& name, const std::string& version);
  // Nobody uses that version any more, nor its ModelMetrics. Its lion_model_ready goes at once; the others stay for
  // kLastPages pages more, so that those who scrape see what it counted last; at most kMostRetired of all models.
  void Retire(const std::string& name, const std::string& version);
  // That version never served: its series go at once.
  void Forget(const std::string& name, const std::string& version);
  static constexpr int kLastPages = 4;
  static constexpr size_t kMostRetired = 8;

  // lion_model_reloads_total of that name exists from now on, or no more.
  void TrackReloads(const std::string& name, bool exists);
  // A name that is not tracked counts as unknown.
  void CountReload(const std::string& name, bool success);

  // For requests that name no model there is.
  ModelMetrics& unknown() { return *unknown_; }
  // A call that had no good token. It is counted nowhere else.
  void CountUnauthenticated();

  std::string Text() const;  // as Prometheus reads it: a page

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
  ModelMetrics* unknown_ = nullptr;
};

}  // namespace lion
