// What Prometheus clients by convention say of their process, read from /proc.
#pragma once

#include <prometheus/collectable.h>

#include <string>
#include <vector>

namespace lion {

// process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_start_time_seconds,
// process_open_fds, process_max_fds and process_threads, read at each Collect. What cannot be read is left out.
class ProcessMetrics : public prometheus::Collectable {
 public:
  // `root`: of the file system, for tests.
  explicit ProcessMetrics(std::string root = "") : root_(std::move(root)) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string root_;
};

}  // namespace lion
