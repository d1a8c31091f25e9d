#include "client/cli/bench/record.h"

#include <algorithm>

namespace lion::bench {

void Successes::Add(const Answer& answer, const CallTimes& times) {
  const int64_t from_send_ns = times.done_ns - times.sent_ns;
  from_schedule.Record(times.done_ns - times.scheduled_ns);
  from_send.Record(from_send_ns);
  images += answer.images;
  tokens += answer.tokens;
  if (!answer.timing.has_value()) return;
  server_total.Record(answer.timing->total_ns);
  server_queue.Record(answer.timing->queue_ns);
  server_preprocess.Record(answer.timing->preprocess_ns);
  server_compute.Record(answer.timing->compute_ns);
  outside_server.Record(from_send_ns - answer.timing->total_ns);
  batch_inputs += answer.timing->batch_inputs;
}

void Successes::Merge(const Successes& other) {
  from_schedule.Merge(other.from_schedule);
  from_send.Merge(other.from_send);
  server_total.Merge(other.server_total);
  server_queue.Merge(other.server_queue);
  server_preprocess.Merge(other.server_preprocess);
  server_compute.Merge(other.server_compute);
  outside_server.Merge(other.outside_server);
  images += other.images;
  tokens += other.tokens;
  batch_inputs += other.batch_inputs;
}

void RunRecord::AddScheduled(int64_t scheduled_ns) {
  if (scheduled++ == 0) first_scheduled_ns = scheduled_ns;
  last_scheduled_ns = scheduled_ns;
}

void RunRecord::AddAnswer(size_t size, const Answer& answer, const CallTimes& times) {
  if (!answer.status.ok()) {
    Failures& same_code = failures[answer.status.code()];
    if (same_code.count++ == 0) same_code.example = answer.status;
    same_code.from_send.Record(times.done_ns - times.sent_ns);
    return;
  }
  by_size[size].Add(answer, times);
  latency_trend.Add(1e-9 * static_cast<double>(times.scheduled_ns - first_scheduled_ns),
                    1e-9 * static_cast<double>(times.done_ns - times.scheduled_ns));
  first_success_ns = first_success_ns == 0 ? times.done_ns : std::min(first_success_ns, times.done_ns);
  last_success_ns = std::max(last_success_ns, times.done_ns);
}

Successes RunRecord::AllSizes() const {
  Successes all;
  for (const Successes& size : by_size) all.Merge(size);
  return all;
}

int64_t RunRecord::FailureCount() const {
  int64_t count = 0;
  for (const auto& [code, same_code] : failures) count += same_code.count;
  return count;
}

}  // namespace lion::bench
