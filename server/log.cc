#include "server/log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr char kRequests[] = "requests";

// The message as a JSON string, whatever bytes are in it.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const nlohmann::json text = std::string(message.payload.data(), message.payload.size());
    const std::string quoted = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override { return std::make_unique<JsonMessage>(); }
};

void Write(spdlog::level::level_enum level, absl::string_view message) {
  spdlog::log(level, spdlog::string_view_t(message.data(), message.size()));
}

void LogGrpc(gpr_log_func_args* args) { LogDebug(absl::StrCat("grpc: ", args->message)); }

// Requests decide what is written here (strings that are not UTF-8, ...): nothing for the usual log.
void LogProtobuf(google::protobuf::LogLevel level, const char* file, int line, const std::string& message) {
  const std::string text = absl::StrCat("protobuf: ", file, ":", line, ": ", message);
  if (level == google::protobuf::LOGLEVEL_FATAL) {
    LogError(text);
  } else {
    LogDebug(text);
  }
}

}  // namespace

absl::Status SetUpLog(LogFormat format, const std::string& level) {
  const spdlog::level::level_enum parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off") {
    return absl::InvalidArgumentError(
        absl::StrCat("log level: got '", level, "', want debug, info, warning, error or off"));
  }
  auto logger = std::make_shared<spdlog::logger>("lion", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  if (format == LogFormat::kJson) {
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","thread":%t,"message":%*})");
  } else {
    formatter->set_pattern("%Y-%m-%d %H:%M:%S.%e %L %v");
  }
  // The same stream, whose lines do not mix, in another form.
  auto requests = std::make_shared<spdlog::logger>(kRequests, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  requests->set_pattern(
      format == LogFormat::kJson
          ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","thread":%t,"message":"slow request","request":{%v}})"
          : "%Y-%m-%d %H:%M:%S.%e %L slow request {%v}",
      spdlog::pattern_time_type::utc);
  requests->set_level(parsed);
  logger->set_formatter(std::move(formatter));
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  spdlog::register_logger(std::move(requests));
  gpr_set_log_function(LogGrpc);
  google::protobuf::SetLogHandler(LogProtobuf);
  return absl::OkStatus();
}

void LogDebug(absl::string_view message) { Write(spdlog::level::debug, message); }
void LogInfo(absl::string_view message) { Write(spdlog::level::info, message); }
void LogWarning(absl::string_view message) { Write(spdlog::level::warn, message); }
void LogError(absl::string_view message) { Write(spdlog::level::err, message); }

void LogSlowRequest(absl::string_view members) {
  if (const std::shared_ptr<spdlog::logger> logger = spdlog::get(kRequests); logger != nullptr) {
    logger->warn(spdlog::string_view_t(members.data(), members.size()));
  }
}

}  // namespace lion
