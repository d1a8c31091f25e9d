#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "server/metrics/metrics_server.h"
#include "server/metrics/process_metrics.h"
#include "tests/support/http_get.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(MetricsTest, HasEverySeriesAtZeroBeforeTheFirstRequest) {
  Metrics metrics("1.2.3", "cpu");
  metrics.ForModel("digits", "1");
  const std::string text = metrics.Text();
  for (const char* line : {
           "lion_build_info{backend=\"cpu\",version=\"1.2.3\"} 1",
           "lion_requests_total{code=\"OK\",method=\"Embed\",model=\"digits\",version=\"1\"} 0",
           "lion_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"ClassifyStream\",model=\"digits\",version=\"1\"} "
           "0",
           "lion_requests_total{code=\"NOT_FOUND\",method=\"FillMask\",model=\"unknown\",version=\"\"} 0",
           "lion_request_duration_seconds_count{method=\"Tokenize\",model=\"digits\",version=\"1\"} 0",
           "lion_queue_duration_seconds_count{model=\"digits\",version=\"1\"} 0",
           "lion_preprocess_duration_seconds_count{model=\"digits\",version=\"1\"} 0",
           "lion_compute_duration_seconds_count{model=\"digits\",version=\"1\"} 0",
           "lion_batch_size_count{model=\"digits\",version=\"1\"} 0",
           "lion_batch_tokens_count{model=\"digits\",version=\"1\"} 0",
           "lion_queue_depth{model=\"digits\",version=\"1\"} 0",
           "lion_inflight_requests{model=\"digits\",version=\"1\"} 0",
           "lion_rejected_total{model=\"digits\",reason=\"overloaded\",version=\"1\"} 0",
           "lion_rejected_total{model=\"digits\",reason=\"deadline\",version=\"1\"} 0",
           "lion_nonfinite_total{model=\"digits\",version=\"1\"} 0",
           "lion_model_ready{model=\"digits\",version=\"1\"} 0",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(MetricsTest, CountsWhatItIsTold) {
  Metrics metrics("1", "cpu");
  ModelMetrics& model = metrics.ForModel("m", "7");
  model.CountRequest(RpcMethod::kEmbed, absl::StatusCode::kOk, 3'000'000);
  model.CountRequest(RpcMethod::kEmbed, absl::StatusCode::kOk, 30'000'000);
  model.CountRequest(RpcMethod::kClassify, absl::StatusCode::kDeadlineExceeded, 1);
  model.CountRequest(RpcMethod::kClassify, static_cast<absl::StatusCode>(99), 1);
  model.ObserveInput(/*preprocess_ns=*/2'000'000, /*queue_ns=*/40'000'000);
  model.ObserveBatch(3, 600, 12'000'000);
  model.CountRejected(RejectReason::kCancelled, 5);
  model.CountNonFinite();
  model.AddInFlight(4);
  model.AddInFlight(-1);
  model.AddQueued(2);
  model.SetReady(true);
  const std::string text = metrics.Text();
  for (const char* line : {
           "lion_requests_total{code=\"OK\",method=\"Embed\",model=\"m\",version=\"7\"} 2",
           "lion_requests_total{code=\"DEADLINE_EXCEEDED\",method=\"Classify\",model=\"m\",version=\"7\"} 1",
           "lion_requests_total{code=\"UNKNOWN\",method=\"Classify\",model=\"m\",version=\"7\"} 1",
           "lion_request_duration_seconds_bucket{method=\"Embed\",model=\"m\",version=\"7\",le=\"0.0025\"} 0",
           "lion_request_duration_seconds_bucket{method=\"Embed\",model=\"m\",version=\"7\",le=\"0.005\"} 1",
           "lion_request_duration_seconds_bucket{method=\"Embed\",model=\"m\",version=\"7\",le=\"+Inf\"} 2",
           "lion_preprocess_duration_seconds_bucket{model=\"m\",version=\"7\",le=\"0.0025\"} 1",
           "lion_queue_duration_seconds_bucket{model=\"m\",version=\"7\",le=\"0.025\"} 0",
           "lion_queue_duration_seconds_bucket{model=\"m\",version=\"7\",le=\"0.05\"} 1",
           "lion_batch_size_sum{model=\"m\",version=\"7\"} 3",
           "lion_batch_tokens_sum{model=\"m\",version=\"7\"} 600",
           "lion_compute_duration_seconds_bucket{model=\"m\",version=\"7\",le=\"0.025\"} 1",
           "lion_rejected_total{model=\"m\",reason=\"cancelled\",version=\"7\"} 5",
           "lion_nonfinite_total{model=\"m\",version=\"7\"} 1",
           "lion_inflight_requests{model=\"m\",version=\"7\"} 3",
           "lion_queue_depth{model=\"m\",version=\"7\"} 2",
           "lion_model_ready{model=\"m\",version=\"7\"} 1",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(MetricsTest, IsOneSeriesPerNameAndVersion) {
  Metrics metrics("1", "cpu");
  EXPECT_EQ(&metrics.ForModel("m", "1"), &metrics.ForModel("m", "1"));
  EXPECT_NE(&metrics.ForModel("m", "1"), &metrics.ForModel("m", "2"));
  EXPECT_EQ(&metrics.unknown(), &metrics.ForModel("unknown", ""));
}

TEST(MetricsTest, ARetiredVersionStaysForAFewPagesWithoutItsReadiness) {
  Metrics metrics("1", "cpu");
  const std::string before = metrics.Text();
  metrics.ForModel("m", "1").CountRequest(RpcMethod::kEmbed, absl::StatusCode::kOk, 1);
  metrics.ForModel("m", "2").SetReady(true);
  metrics.Retire("m", "1");
  metrics.Retire("never", "1");
  for (int page = 0; page < Metrics::kLastPages; ++page) {
    const std::string text = metrics.Text();
    EXPECT_THAT(text, HasSubstr("lion_requests_total{code=\"OK\",method=\"Embed\",model=\"m\",version=\"1\"} 1\n"));
    EXPECT_THAT(text, Not(HasSubstr("lion_model_ready{model=\"m\",version=\"1\"}")));
    EXPECT_THAT(text, HasSubstr("lion_model_ready{model=\"m\",version=\"2\"} 1\n"));
  }
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("model=\"m\",version=\"1\"")));
  EXPECT_THAT(metrics.Text(), HasSubstr("model=\"m\",version=\"2\""));
  metrics.Forget("m", "2");
  EXPECT_EQ(metrics.Text().size(), before.size());
}

TEST(MetricsTest, ManyReloadsThatNobodyWatchesLeaveFewSeries) {
  const auto bytes_after = [](size_t reloads) {
    Metrics metrics("1", "cpu");
    for (size_t version = 1000; version < 1000 + reloads; ++version) {
      metrics.ForModel("m", std::to_string(version));
      metrics.Retire("m", std::to_string(version));
    }
    return metrics.Text().size();
  };
  EXPECT_LT(bytes_after(1), bytes_after(2));
  EXPECT_EQ(bytes_after(100), bytes_after(Metrics::kMostRetired));
}

TEST(MetricsTest, AVersionThatComesBackBeginsAtZero) {
  Metrics metrics("1", "cpu");
  metrics.ForModel("m", "1").CountNonFinite();
  metrics.Retire("m", "1");
  metrics.ForModel("m", "1").SetReady(true);
  for (int page = 0; page < 2 * Metrics::kLastPages; ++page) {
    EXPECT_THAT(metrics.Text(), AllOf(HasSubstr("lion_nonfinite_total{model=\"m\",version=\"1\"} 0\n"),
                                      HasSubstr("lion_model_ready{model=\"m\",version=\"1\"} 1\n")));
  }
}

TEST(MetricsTest, CountsReloadsOfTheModelsThereAre) {
  Metrics metrics("1", "cpu");
  metrics.TrackReloads("m", true);
  EXPECT_THAT(metrics.Text(), AllOf(HasSubstr("lion_model_reloads_total{model=\"m\",result=\"success\"} 0\n"),
                                    HasSubstr("lion_model_reloads_total{model=\"m\",result=\"failure\"} 0\n"),
                                    HasSubstr("lion_model_reloads_total{model=\"unknown\",result=\"failure\"} 0\n")));
  metrics.CountReload("m", true);
  metrics.TrackReloads("m", true);
  metrics.CountReload("m", true);
  metrics.CountReload("m", false);
  metrics.CountReload("made up", false);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, AllOf(HasSubstr("lion_model_reloads_total{model=\"m\",result=\"success\"} 2\n"),
                          HasSubstr("lion_model_reloads_total{model=\"m\",result=\"failure\"} 1\n"),
                          HasSubstr("lion_model_reloads_total{model=\"unknown\",result=\"failure\"} 1\n")));
  EXPECT_THAT(text, Not(HasSubstr("made up")));
  metrics.TrackReloads("m", false);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("model=\"m\"")));
}

TEST(MetricsTest, LosesNoCountBetweenThreads) {
  Metrics metrics("1", "cpu");
  ModelMetrics& model = metrics.ForModel("m", "1");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 1000; ++call) {
        model.AddInFlight(1);
        model.CountRequest(RpcMethod::kEmbed, absl::StatusCode::kOk, 1000);
        model.AddInFlight(-1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("lion_requests_total{code=\"OK\",method=\"Embed\",model=\"m\",version=\"1\"} 4000\n"));
  EXPECT_THAT(text, HasSubstr("lion_inflight_requests{model=\"m\",version=\"1\"} 0\n"));
}

TEST(MetricsServerTest, ServesModelsAndProcess) {
  Metrics metrics("1", "cpu");
  metrics.ForModel("digits", "1").CountRequest(RpcMethod::kEmbed, absl::StatusCode::kOk, 1);
  const auto server = ServeMetrics("127.0.0.1", 0, metrics, [] { return true; });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string answer = testing::HttpGet((*server)->port(), "/metrics");
  EXPECT_THAT(answer, AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("version=0.0.4"),
                            HasSubstr("# TYPE lion_requests_total counter\n"),
                            HasSubstr("method=\"Embed\",model=\"digits\",version=\"1\"} 1\n"),
                            HasSubstr("# TYPE process_resident_memory_bytes gauge\n"), HasSubstr("process_open_fds ")));
  EXPECT_THAT(testing::HttpGet((*server)->port(), "/"), HasSubstr("HTTP/1.1 404"));
}

TEST(MetricsServerTest, AnswersProbes) {
  Metrics metrics("1", "cpu");
  std::atomic<bool> ready = false;
  const auto server = ServeMetrics("127.0.0.1", 0, metrics, [&] { return ready.load(); });
  ASSERT_TRUE(server.ok()) << server.status();
  for (const char* path : {"/health", "/v2/health/ready"}) {
    ready = false;
    EXPECT_THAT(testing::HttpGet((*server)->port(), path), AllOf(HasSubstr("HTTP/1.1 503"), HasSubstr("NOT_SERVING")));
    ready = true;
    EXPECT_THAT(testing::HttpGet((*server)->port(), path),
                AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("\r\n\r\nSERVING")));
  }
  EXPECT_THAT(testing::HttpGet((*server)->port(), "/v2/health/live"), HasSubstr("HTTP/1.1 200"));
}

TEST(MetricsServerTest, TakesNamesAndIpv6WithOrWithoutBrackets) {
  Metrics metrics("1", "cpu");
  const auto start = [&](const std::string& host) {
    return ServeMetrics(host, 0, metrics, [] { return true; }).status();
  };
  EXPECT_TRUE(start("localhost").ok()) << start("localhost");
  // Not every machine has IPv6.
  EXPECT_EQ(start("[::1]").ok(), start("::1").ok()) << start("[::1]");
  EXPECT_THAT(start("no.such.host.invalid").message(), HasSubstr("no.such.host.invalid port 0 for metrics"));
}

TEST(MetricsServerTest, TakesNothingButSmallRequestsToRead) {
  Metrics metrics("1", "cpu");
  const auto server = ServeMetrics("127.0.0.1", 0, metrics, [] { return true; });
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  const auto send = [port](const std::string& request) { return testing::HttpExchange(port, request); };
  EXPECT_THAT(send("POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(send("GET /health HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(send("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(send(std::string("\0\xff\r\n\r\n", 6)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(send("HEAD /health HTTP/1.1\r\n\r\n"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(send("GET /health?verbose=1 HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST(MetricsServerTest, IdleConnectionsHoldUpNeitherOthersNorTheEnd) {
  Metrics metrics("1", "cpu");
  auto server = ServeMetrics("127.0.0.1", 0, metrics, [] { return true; });
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<testing::Socket> idle;
  for (int i = 0; i < 30; ++i) idle.push_back(testing::ConnectTo((*server)->port()));
  EXPECT_THAT(testing::HttpGet((*server)->port(), "/health"), StartsWith("HTTP/1.1 200"));
  server->reset();  // hangs if it waits for them
}

TEST(MetricsServerTest, SaysWhichPortCannotBeHad) {
  Metrics metrics("1", "cpu");
  const auto first = ServeMetrics("127.0.0.1", 0, metrics, [] { return true; });
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ServeMetrics("127.0.0.1", (*first)->port(), metrics, [] { return true; });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("127.0.0.1 port " + std::to_string((*first)->port())));
}

double Value(const std::vector<prometheus::MetricFamily>& families, const std::string& name) {
  for (const prometheus::MetricFamily& family : families) {
    if (family.name != name) continue;
    const prometheus::ClientMetric& metric = family.metric.at(0);
    return family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value;
  }
  return -1;
}

TEST(ProcessMetricsTest, ReadsAStatLineWhoseNameHoldsSpacesAndBrackets) {
  const std::string root = ::testing::TempDir() + "process_metrics_" + std::to_string(::getpid());
  std::filesystem::create_directories(root + "/proc/self/fd/0");
  std::filesystem::create_directories(root + "/proc/self/fd/7");
  std::ofstream(root + "/proc/self/stat")
      << "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 300 8192 3 18446744073709551615 1";
  std::ofstream(root + "/proc/stat") << "cpu  1 2 3\nbtime 1000\n";
  const auto families = ProcessMetrics(root).Collect();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK)), page = static_cast<double>(sysconf(_SC_PAGESIZE));
  EXPECT_DOUBLE_EQ(Value(families, "process_cpu_seconds_total"), 200 / ticks);
  EXPECT_DOUBLE_EQ(Value(families, "process_threads"), 9);
  EXPECT_DOUBLE_EQ(Value(families, "process_start_time_seconds"), 1000 + 300 / ticks);
  EXPECT_DOUBLE_EQ(Value(families, "process_virtual_memory_bytes"), 8192);
  EXPECT_DOUBLE_EQ(Value(families, "process_resident_memory_bytes"), 3 * page);
  EXPECT_DOUBLE_EQ(Value(families, "process_open_fds"), 2);
  EXPECT_GT(Value(families, "process_max_fds"), 0);
  std::filesystem::remove_all(root);
}

TEST(ProcessMetricsTest, LeavesOutWhatCannotBeRead) {
  const auto families = ProcessMetrics("/no/such/root").Collect();
  EXPECT_EQ(Value(families, "process_resident_memory_bytes"), -1);
  EXPECT_EQ(Value(families, "process_open_fds"), -1);
  EXPECT_GT(Value(families, "process_max_fds"), 0);
}

}  // namespace
}  // namespace lion
