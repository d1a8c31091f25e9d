#include "server/access_log.h"

#include <pthread.h>
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "server/line_limit.h"
#include "server/mutex.h"

namespace lion {
namespace {

class AccessLogImpl final : public AccessLog {
 public:
  explicit AccessLogImpl(std::function<void(int64_t)> lost)
      : lost_(std::move(lost)),
        thread_(std::make_shared<spdlog::details::thread_pool>(
            kMostWaiting, 1, [] { pthread_setname_np(pthread_self(), "lion-access-log"); })),
        logger_(std::make_shared<spdlog::async_logger>("access", std::make_shared<spdlog::sinks::stdout_sink_mt>(),
                                                       thread_, spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ",%v})", spdlog::pattern_time_type::utc);
  }

  void Write(absl::string_view members) override {
    logger_->info(spdlog::string_view_t(members.data(), members.size()));
    const size_t lost = thread_->overrun_counter();
    if (lost == 0) return;
    {
      MutexLock lock(mutex_);
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      if (lost == told_ || !limit_.Allow(std::chrono::nanoseconds(now).count())) return;
      told_ = lost;
    }
    lost_(static_cast<int64_t>(lost));
  }

 private:
  const std::function<void(int64_t)> lost_;
  const std::shared_ptr<spdlog::details::thread_pool> thread_;
  const std::shared_ptr<spdlog::async_logger> logger_;
  Mutex mutex_;
  LineLimit limit_ ABSL_GUARDED_BY(mutex_){1};
  size_t told_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<AccessLog> AccessLog::Start(std::function<void(int64_t lines)> lost) {
  return std::make_unique<AccessLogImpl>(std::move(lost));
}

}  // namespace lion
