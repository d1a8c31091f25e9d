#include "server/metrics/process_metrics.h"

#include <prometheus/metric_family.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace lion {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

void Add(const char* name, const char* help, MetricType type, double value, std::vector<MetricFamily>& families) {
  prometheus::ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  families.push_back({name, help, type, {std::move(metric)}});
}

// Seconds since 1970 at which the machine was started; 0: not known.
double BootTime(const std::string& root) {
  std::ifstream stat(root + "/proc/stat");
  for (std::string key; stat >> key; stat.ignore(1 << 20, '\n')) {
    double seconds = 0;
    if (key == "btime" && stat >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  std::vector<MetricFamily> families;
  std::ifstream file(root_ + "/proc/self/stat");
  std::stringstream text;
  text << file.rdbuf();
  // The second field is the program's name in brackets and may hold anything; the third follows its last bracket.
  const std::string stat = text.str();
  const size_t name_end = stat.rfind(')');
  std::vector<double> fields;  // from the third on: proc(5)
  if (name_end != std::string::npos) {
    std::istringstream rest(stat.substr(name_end + 1));
    std::string state;
    rest >> state;
    fields.push_back(0);
    for (double value = 0; rest >> value;) fields.push_back(value);
  }
  constexpr size_t kUserTime = 11, kSystemTime = 12, kThreads = 17, kStartTime = 19, kVirtual = 20, kResident = 21;
  if (fields.size() > kResident) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK)), page = static_cast<double>(sysconf(_SC_PAGESIZE));
    Add("process_cpu_seconds_total", "Processor time, user and system", MetricType::Counter,
        (fields[kUserTime] + fields[kSystemTime]) / ticks, families);
    Add("process_resident_memory_bytes", "Resident memory", MetricType::Gauge, fields[kResident] * page, families);
    Add("process_virtual_memory_bytes", "Virtual memory", MetricType::Gauge, fields[kVirtual], families);
    Add("process_threads", "Threads", MetricType::Gauge, fields[kThreads], families);
    if (const double boot = BootTime(root_); boot > 0) {
      Add("process_start_time_seconds", "Start, in seconds since 1970", MetricType::Gauge,
          boot + fields[kStartTime] / ticks, families);
    }
  }
  std::error_code error;
  int64_t open_files = 0;
  for (std::filesystem::directory_iterator entry(root_ + "/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++open_files;
  }
  if (!error) {
    Add("process_open_fds", "Open files and sockets", MetricType::Gauge, static_cast<double>(open_files), families);
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    Add("process_max_fds", "Files and sockets that may be open", MetricType::Gauge, static_cast<double>(limit.rlim_cur),
        families);
  }
  return families;
}

}  // namespace lion
