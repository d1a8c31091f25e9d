#include "server/inference_call.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace lion {
namespace {

// Failures of the call as a whole, whatever partial_results says.
bool ConcernsWholeCall(absl::StatusCode code) {
  return code == absl::StatusCode::kDeadlineExceeded || code == absl::StatusCode::kCancelled ||
         code == absl::StatusCode::kUnavailable;
}

}  // namespace

absl::Status OfInput(size_t index, const absl::Status& status) {
  absl::Status named(status.code(), absl::StrCat("input ", index, ": ", status.message()));
  status.ForEachPayload([&named](absl::string_view key, const absl::Cord& payload) { named.SetPayload(key, payload); });
  return named;
}

void CallInProgress::Fail(size_t index, const absl::Status& status, const CallTiming& timing) {
  const bool whole_call = ConcernsWholeCall(status.code());
  if (!whole_call && request.partial_results) return;
  MutexLock lock(mutex_);
  // Of several bad inputs the first is named; that the rest is dropped as abandoned is no news.
  if (failure_.ok() || (!whole_call && !ConcernsWholeCall(failure_.code()) && index < failed_index_)) {
    failure_ = whole_call ? status : OfInput(index, status);
    failed_index_ = index;
    timing_ = timing;
  }
  abandoned->store(true, std::memory_order_relaxed);
}

void CallInProgress::Finish(size_t index, absl::Status status, Result result, const CallTiming& timing) {
  if (!status.ok()) {
    Fail(index, status, timing);
  } else {
    MutexLock lock(mutex_);
    if (failure_.ok()) timing_ = timing;
  }
  results[index].status = std::move(status);
  results[index].result = std::move(result);
  if (remaining.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  InferenceReply reply;
  {
    MutexLock lock(mutex_);
    reply.status = failure_;
    reply.timing = timing_;
  }
  reply.results = std::move(results);
  done(std::move(reply));
}

}  // namespace lion
