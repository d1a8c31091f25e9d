// Lines about single requests: which get one, and what is in it.
#include "server/request_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/line_limit.h"

namespace lion {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;

struct Lines {
  RequestLog::Output Output() {
    return {.slow = [this](const std::string& members) { Add(&slow, members); },
            .access = [this](const std::string& members) { Add(&access, members); },
            .left_out =
                [this](int64_t requests) {
                  MutexLock lock(mutex);
                  left_out.push_back(requests);
                }};
  }
  void Add(std::vector<nlohmann::json>* lines, const std::string& members) {
    MutexLock lock(mutex);
    lines->push_back(nlohmann::json::parse("{" + members + "}"));
  }

  Mutex mutex;
  std::vector<nlohmann::json> slow, access;
  std::vector<int64_t> left_out;
};

RequestRecord Took(int64_t total_ns, int64_t end_ns = 100 * kSecond) {
  return {.model = "m", .version = "3", .end_ns = end_ns, .total_ns = total_ns, .admit_ns = kMs};
}

TEST(RequestLogTest, OnlyWhatTookLongerIsSlow) {
  Lines lines;
  RequestLog log({.slow_ms = 20}, lines.Output());
  log.Write(Took(20 * kMs));
  EXPECT_TRUE(lines.slow.empty());
  log.Write(Took(20 * kMs + 1));
  EXPECT_EQ(lines.slow.size(), 1u);
  EXPECT_TRUE(lines.access.empty()) << "nobody wants these";
}

TEST(RequestLogTest, StagesAddUpToTheWholeTime) {
  Lines lines;
  RequestLog log({.slow_ms = 1}, lines.Output());
  const RequestOrigin origin = {.peer = "ipv4:127.0.0.1:7", .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"};
  RequestRecord record = Took(100 * kMs);
  record.method = RpcMethod::kClassifyStream;
  record.origin = &origin;
  record.inputs = 3;
  record.tokens = 120;
  record.timing = {.preprocess_ns = 20 * kMs,
                   .queue_ns = 40 * kMs,
                   .prepare_wait_ns = 15 * kMs,
                   .compute_ns = 30 * kMs,
                   .batch_inputs = 5,
                   .batch_tokens = 200};
  log.Write(record);
  ASSERT_EQ(lines.slow.size(), 1u);
  EXPECT_EQ(lines.slow[0], (nlohmann::json{{"method", "ClassifyStream"},
                                           {"model", "m"},
                                           {"version", "3"},
                                           {"code", "OK"},
                                           {"inputs", 3},
                                           {"tokens", 120},
                                           {"total_ms", 100.0},
                                           {"trace_id", origin.trace_id},
                                           {"peer", origin.peer},
                                           {"admit_ms", 1.0},
                                           {"prepare_wait_ms", 15.0},
                                           {"prepare_ms", 20.0},
                                           {"queue_ms", 25.0},
                                           {"compute_ms", 30.0},
                                           {"reply_ms", 9.0},
                                           {"batch_inputs", 5},
                                           {"batch_tokens", 200}}));
}

TEST(RequestLogTest, AFailedRequestSaysHowLongItWasInTheStageWhereItEnded) {
  Lines lines;
  RequestLog log({.slow_ms = 1}, lines.Output());
  RequestRecord expired = Took(50 * kMs);
  expired.code = absl::StatusCode::kDeadlineExceeded;
  expired.timing = {.preprocess_ns = 9 * kMs};
  log.Write(expired);
  RequestRecord refused = Took(50 * kMs);
  refused.code = absl::StatusCode::kNotFound;
  refused.admit_ns = -1;
  log.Write(refused);
  ASSERT_EQ(lines.slow.size(), 2u);
  EXPECT_EQ(lines.slow[0]["code"], "DEADLINE_EXCEEDED");
  EXPECT_EQ(lines.slow[0]["unfinished_ms"], 40.0);
  EXPECT_EQ(lines.slow[1]["admit_ms"], 50.0);
  EXPECT_EQ(lines.slow[1]["unfinished_ms"], 0.0);
}

TEST(RequestLogTest, ManySlowRequestsHaveFewLinesAndAreCounted) {
  Lines lines;
  {
    RequestLog log({.slow_ms = 10, .access_log = true}, lines.Output());
    for (int i = 0; i < 1000; ++i) log.Write(Took(kSecond, 100 * kSecond + i));
    EXPECT_EQ(lines.slow.size(), 10u);
    EXPECT_EQ(lines.access.size(), 1000u) << "the access log has all";
    EXPECT_TRUE(lines.left_out.empty());
    // A fast request after that second is enough for the count to be told.
    log.Write(Took(kMs, 101 * kSecond));
    EXPECT_EQ(lines.left_out, std::vector<int64_t>{990});
    for (int i = 0; i < 15; ++i) log.Write(Took(kSecond, 102 * kSecond));
    EXPECT_EQ(lines.slow.size(), 20u);
  }
  EXPECT_EQ(lines.left_out, (std::vector<int64_t>{990, 5})) << "the rest is told at the end";
}

TEST(RequestLogTest, BetweenThreadsNoSlowRequestIsForgotten) {
  Lines lines;
  {
    RequestLog log({.slow_ms = 10}, lines.Output());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log] {
        for (int i = 0; i < 5000; ++i) log.Write(Took(kSecond, 100 * kSecond + i * kMs));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  int64_t left_out = 0;
  for (const int64_t requests : lines.left_out) left_out += requests;
  EXPECT_EQ(static_cast<int64_t>(lines.slow.size()) + left_out, 20'000);
  EXPECT_LE(lines.slow.size(), 60u);
}

TEST(RequestLogTest, BytesThatAreNotUtf8LeaveALineThatIsJson) {
  Lines lines;
  RequestLog log({.access_log = true}, lines.Output());
  const RequestOrigin origin = {.peer = "unix:\xff\"\n"};
  RequestRecord record = Took(1);
  record.origin = &origin;
  log.Write(record);
  ASSERT_EQ(lines.access.size(), 1u);
  EXPECT_EQ(lines.access[0]["peer"], "unix:\xEF\xBF\xBD\"\n");
  EXPECT_EQ(lines.access[0].count("trace_id"), 0u);
}

TEST(LineLimitTest, CountsByTheSecond) {
  LineLimit limit(2);
  EXPECT_TRUE(limit.Allow(5));
  EXPECT_TRUE(limit.Allow(6));
  EXPECT_FALSE(limit.Allow(5 + kSecond - 1));
  EXPECT_EQ(limit.TakeLeftOut(5 + kSecond - 1), 0) << "that second is not over";
  EXPECT_EQ(limit.TakeLeftOut(5 + kSecond), 1);
  EXPECT_EQ(limit.TakeLeftOut(5 + kSecond), 0);
  EXPECT_TRUE(limit.Allow(5 + kSecond));
}

}  // namespace
}  // namespace lion
