#include "server/request_log.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

namespace lion {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;

// To the microsecond.
double Milliseconds(int64_t ns) { return std::round(static_cast<double>(ns) / 1e3) / 1e3; }

nlohmann::ordered_json Describe(const RequestRecord& record) {
  nlohmann::ordered_json line = {
      {"method", RpcMethodName(record.method)},        {"model", record.model},   {"version", record.version},
      {"code", absl::StatusCodeToString(record.code)}, {"inputs", record.inputs}, {"tokens", record.tokens},
      {"total_ms", Milliseconds(record.total_ns)}};
  if (record.origin == nullptr) return line;
  if (!record.origin->trace_id.empty()) line["trace_id"] = record.origin->trace_id;
  line["peer"] = record.origin->peer;
  return line;
}

void DescribeStages(const RequestRecord& record, nlohmann::ordered_json* line) {
  const CallTiming& timing = record.timing;
  const int64_t admit_ns = record.admit_ns < 0 ? record.total_ns : record.admit_ns;
  const int64_t rest_ns = record.total_ns - admit_ns - timing.queue_ns - timing.preprocess_ns - timing.compute_ns;
  (*line)["admit_ms"] = Milliseconds(admit_ns);
  (*line)["prepare_wait_ms"] = Milliseconds(timing.prepare_wait_ns);
  (*line)["prepare_ms"] = Milliseconds(timing.preprocess_ns);
  (*line)["queue_ms"] = Milliseconds(timing.queue_ns - timing.prepare_wait_ns);
  (*line)["compute_ms"] = Milliseconds(timing.compute_ns);
  const bool answered = record.code == absl::StatusCode::kOk;
  (*line)[answered ? "reply_ms" : "unfinished_ms"] = Milliseconds(std::max<int64_t>(0, rest_ns));
  (*line)["batch_inputs"] = timing.batch_inputs;
  (*line)["batch_tokens"] = timing.batch_tokens;
}

// Without its braces. A peer's name may hold any bytes.
std::string Members(const nlohmann::ordered_json& line) {
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

}  // namespace

RequestLog::RequestLog(const RequestLogOptions& options, Output output)
    : options_(options), output_(std::move(output)) {}

RequestLog::~RequestLog() {
  MutexLock lock(mutex_);
  if (const int64_t requests = limit_.TakeLeftOut(); requests > 0) output_.left_out(requests);
}

bool RequestLog::AllowSlow(const RequestRecord& record, bool slow) {
  int64_t left_out = 0;
  bool allowed = false;
  {
    MutexLock lock(mutex_);
    left_out = limit_.TakeLeftOut(record.end_ns);
    allowed = slow && limit_.Allow(record.end_ns);
    leaves_out_.store(limit_.left_out() > 0, std::memory_order_relaxed);
  }
  if (left_out > 0) output_.left_out(left_out);
  return allowed;
}

void RequestLog::Write(const RequestRecord& record) try {
  bool slow = options_.slow_ms > 0 && record.total_ns > options_.slow_ms * kMillisecondNs;
  if (slow || leaves_out_.load(std::memory_order_relaxed)) slow = AllowSlow(record, slow);
  if (!slow && !options_.access_log) return;
  nlohmann::ordered_json line = Describe(record);
  if (options_.access_log) output_.access(Members(line));
  if (!slow) return;
  DescribeStages(record, &line);
  output_.slow(Members(line));
} catch (const std::bad_alloc&) {
}

}  // namespace lion
