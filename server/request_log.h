// Lines of the log about single requests: those that were slow and, if wanted, all of them. Nothing of what was asked
// or answered is in them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/inference_call.h"
#include "server/line_limit.h"
#include "server/metrics/metrics.h"
#include "server/mutex.h"

namespace lion {

struct RequestLogOptions {
  int64_t slow_ms = 0;      // a request that took longer is logged; 0: none is
  bool access_log = false;  // a line for each request
};

// Where a call or stream comes from.
struct RequestOrigin {
  std::string peer;      // as gRPC writes it
  std::string trace_id;  // empty: it belongs to no trace
};

// A request that is answered. Its stages are intervals that do not overlap; what is left of its time went into the
// reply or, when it failed, into the stage in which it ended.
struct RequestRecord {
  RpcMethod method = RpcMethod::kEmbed;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view model = "unknown";
  std::string_view version;
  const RequestOrigin* origin = nullptr;
  int64_t inputs = 0;
  int64_t tokens = 0;     // of the inputs that were prepared
  int64_t end_ns = 0;     // of the server's clock
  int64_t total_ns = 0;   // from arrival
  int64_t admit_ns = -1;  // parsing, checking and, in a stream, waiting for room; negative: it was not let in
  CallTiming timing;
};

// Any thread.
class RequestLog {
 public:
  // Each gets a line's JSON members: `"name":value,...`.
  struct Output {
    std::function<void(const std::string& members)> slow;
    std::function<void(const std::string& members)> access;
    // How many slow requests were left out since it was called last.
    std::function<void(int64_t requests)> left_out;
  };
  static constexpr int64_t kSlowLinesPerSecond = 10;

  RequestLog(const RequestLogOptions& options, Output output);
  // Says what was left out last.
  ~RequestLog();

  // A request for whose line there is no memory goes without.
  void Write(const RequestRecord& record);

 private:
  // Whether a slow request may have its line. At the end of a second in which some had none, says how many.
  bool AllowSlow(const RequestRecord& record, bool slow);

  const RequestLogOptions options_;
  const Output output_;
  std::atomic<bool> leaves_out_ = false;
  Mutex mutex_;
  LineLimit limit_ ABSL_GUARDED_BY(mutex_){kSlowLinesPerSecond};
};

}  // namespace lion
