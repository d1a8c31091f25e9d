#include "client/cli/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/cli/bench/summary.h"

namespace lion::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kMs = 1'000'000;

v1::Model SomeModel() {
  v1::Model model;
  model.set_name("digits");
  model.set_version("3");
  model.set_variant("LION-S");
  model.set_compute_type("bfloat16");
  model.set_device("cpu");
  return model;
}

BenchFlags SomeFlags() {
  BenchFlags flags;
  flags.server.address = "127.0.0.1:8001";
  flags.rate = 100;
  return flags;
}

// `calls` calls every 10 ms, each sent 0.1 ms late and answered after 4 ms, of which the server says 3.
RunRecord Steady(int64_t calls) {
  RunRecord record(1);
  for (int64_t i = 0; i < calls; ++i) {
    const int64_t due_ns = 10 * kMs * (i + 1);
    record.AddScheduled(due_ns);
    ++record.sent;
    record.send_lag.Record(kMs / 10);
    Answer answer;
    answer.images = 1;
    answer.tokens = 17;
    answer.timing = {3 * kMs, kMs / 2, kMs / 4, 2 * kMs, 2};
    record.AddAnswer(0, answer, {due_ns, due_ns + kMs / 10, due_ns + kMs / 10 + 4 * kMs});
  }
  record.window_ns = 10 * kMs * calls;
  record.sent_bytes = 2400 * calls;
  return record;
}

const std::vector<SizeShare> kOneSize = {{28, 28, 1}};

std::string Text(const BenchFlags& flags, const RunRecord& record, const std::vector<SizeShare>& mix = kOneSize) {
  return ReportText(flags, SomeModel(), Summarize(flags, mix, record));
}

TEST(BenchReportTest, SaysWhatWasAskedWhatCameAndWhereTheTimeWent) {
  EXPECT_EQ(Text(SomeFlags(), Steady(1000)),
            R"(embed on 127.0.0.1:8001: digits, LION-S, bfloat16, cpu
open loop: 100 calls/s, Poisson arrivals; 10 s after 1 s of warm-up; 1 connection; seed 1
1 image a call, as pixels: 28x28

calls       1000 sent, 1000 succeeded, 0 failed, 0 not sent
rate        100.0 calls/s asked for, 100.0 came, 100.0 answered
throughput  100.0 images/s, 1700 tokens/s, 234.4 KiB/s sent
batches     2.0 inputs: the mean of what a call ran with

LATENCY, ms        COUNT   MEAN    p50    p90    p99  p99.9    MAX
from the schedule   1000  4.100  4.100  4.100  4.100      -  4.100
from the sending    1000  4.000  4.000  4.000  4.000      -  4.000
  in the server     1000  3.000  3.000  3.000  3.000      -  3.000
    preprocess      1000  0.250  0.250  0.250  0.250      -  0.250
    queue           1000  0.500  0.500  0.500  0.500      -  0.500
    compute         1000  2.000  2.000  2.000  2.000      -  2.000
  outside of it     1000  1.000  1.000  1.000  1.000      -  1.000
sent late by        1000  0.100  0.100  0.100  0.100      -  0.100
-: too few calls to tell (10 must lie beyond a percentile: p99.9 needs 10000)
)");
}

TEST(BenchReportTest, PrintsNoPercentileThatTheSampleCannotSupport) {
  const std::string text = Text(SomeFlags(), Steady(999));
  EXPECT_THAT(text, HasSubstr("from the schedule    999  4.100  4.100  4.100    -      -  4.100\n"));
  EXPECT_THAT(text, HasSubstr("p99 needs 1000, p99.9 needs 10000)"));
  EXPECT_THAT(Text(SomeFlags(), Steady(19)), HasSubstr("p50 needs 20, p90 needs 100, p99 needs 1000"));
  EXPECT_THAT(Text(SomeFlags(), Steady(10'000)), Not(HasSubstr("too few calls")));
}

TEST(BenchReportTest, ErrorsHaveTheirOwnTableTheMostFrequentFirst) {
  RunRecord record = Steady(100);
  for (int i = 0; i < 25; ++i) {
    record.AddScheduled(2000 * kMs);
    ++record.sent;
    Answer answer;
    answer.status = i == 0 ? absl::InternalError("a\nb") : absl::ResourceExhaustedError("the queue is full");
    record.AddAnswer(0, answer, {2000 * kMs, 2000 * kMs, (i == 0 ? 2003 : 2001) * kMs});
  }
  const std::string text = Text(SomeFlags(), record);
  EXPECT_THAT(text, HasSubstr("125 sent, 100 succeeded, 25 failed, 0 not sent\n"));
  EXPECT_THAT(text, HasSubstr("COUNT  ERROR               AFTER: p50  p99  MAX ms  THE FIRST ONE'S MESSAGE\n"
                              "   24  RESOURCE_EXHAUSTED       1.000    -   1.000  the queue is full\n"
                              "    1  INTERNAL                     -    -   3.000  a?b\n"));
}

TEST(BenchReportTest, WarningsComeLast) {
  RunRecord record = Steady(100);
  record.ended_early = true;
  EXPECT_THAT(Text(SomeFlags(), record), HasSubstr("\n\n! The run was ended early, after 1.0 s.\n"));
}

TEST(BenchReportTest, AClosedLoopHasNoScheduleAndSaysWhatItHides) {
  BenchFlags flags = SomeFlags();
  flags.rate = 0;
  flags.concurrency = 8;
  flags.requests = 500;
  flags.connections = 2;
  const std::string text = Text(flags, Steady(500));
  EXPECT_THAT(text, HasSubstr("closed loop: 8 calls at a time; 500 calls after 1 s of warm-up; 2 connections"));
  EXPECT_THAT(text, Not(HasSubstr("schedule")));
  EXPECT_THAT(text, HasSubstr("hardly shows"));
}

TEST(BenchReportTest, WithoutAnAnswerThereIsNoTableOfLatencies) {
  RunRecord record(1);
  record.AddScheduled(1);
  ++record.sent;
  record.send_lag.Record(5);
  Answer answer;
  answer.status = absl::NotFoundError("no model x");
  record.AddAnswer(0, answer, {1, 1, 2});
  const std::string text = Text(SomeFlags(), record);
  EXPECT_THAT(text, Not(HasSubstr("LATENCY")));
  EXPECT_THAT(text, Not(HasSubstr("too few")));
  EXPECT_THAT(text, ::testing::ContainsRegex("    1  NOT_FOUND +- +- +0.000  no model x\n"));
}

TEST(BenchReportTest, AMixIsBrokenDownBySize) {
  const std::vector<SizeShare> mix = {{28, 28, 0.75}, {640, 480, 0.25}};
  RunRecord record = Steady(40);
  record.by_size.resize(2);
  Answer answer;
  answer.images = 1;
  record.AddAnswer(1, answer, {400 * kMs, 400 * kMs, 525 * kMs});
  const std::string text = Text(SomeFlags(), record, mix);
  EXPECT_THAT(text, HasSubstr("as pixels: 28x28 (75 %), 640x480 (25 %)\n"));
  EXPECT_THAT(text, HasSubstr("\nBY SIZE, from the schedule\n28x28"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n640x480 +1 +125.0 +- +- +- +- +125.0\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nBY SIZE, in the server\n28x28 +40 +3.000 .*\n640x480 +0 +- "));
}

TEST(BenchReportTest, JsonHoldsTheSameInWholeNanoseconds) {
  RunRecord record = Steady(1000);
  record.not_sent_in_flight = 3;
  Answer answer;
  answer.status = absl::UnavailableError("gone \xff");
  record.AddAnswer(0, answer, {1, 1, 2});
  const BenchFlags flags = SomeFlags();
  const std::string text = ReportJson(flags, SomeModel(), Summarize(flags, kOneSize, record));
  EXPECT_THAT(text, StartsWith("{\"setup\":{\"server\":\"127.0.0.1:8001\",\"model\":\"digits\""));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["setup"]["loop"], "open");
  EXPECT_EQ(json["setup"]["arrivals"], "poisson");
  EXPECT_EQ(json["setup"]["seed"], 1);
  EXPECT_EQ(json["calls"]["succeeded"], 1000);
  EXPECT_EQ(json["calls"]["failed"], 1);
  EXPECT_EQ(json["calls"]["not_sent_in_flight"], 3);
  EXPECT_NEAR(json["per_second"]["arrived"].get<double>(), 100, 1e-6);
  EXPECT_EQ(json["batch_inputs"], 2.0);
  const auto& latency = json["latency"]["from_schedule"];
  EXPECT_EQ(latency["count"], 1000);
  EXPECT_EQ(latency["mean_ns"], 4'100'000);
  EXPECT_EQ(latency["max_ns"], 4'100'000);
  EXPECT_NEAR(latency["p99_ns"].get<double>(), 4.1e6, 2.1e3);
  EXPECT_TRUE(latency.contains("p99.9_ns"));
  EXPECT_TRUE(latency["p99.9_ns"].is_null());
  EXPECT_EQ(json["latency"]["server_compute"]["max_ns"], 2'000'000);
  EXPECT_EQ(json["sizes"][0]["width"], 28);
  EXPECT_EQ(json["sizes"][0]["tokens_per_image"], 17.0);
  EXPECT_EQ(json["errors"][0]["code"], "UNAVAILABLE");
  EXPECT_EQ(json["errors"][0]["message"], "gone \ufffd");
  EXPECT_EQ(json["errors"][0]["count"], 1);
  EXPECT_EQ(json["errors"][0]["from_send"]["max_ns"], 1);
  EXPECT_EQ(json["warnings"].size(), 1u);
}

TEST(BenchReportTest, JsonWithoutAnAnswerIsStillWhole) {
  const BenchFlags flags = SomeFlags();
  const auto json = nlohmann::json::parse(ReportJson(flags, SomeModel(), Summarize(flags, kOneSize, RunRecord(1))));
  EXPECT_EQ(json["latency"]["from_schedule"]["count"], 0);
  EXPECT_TRUE(json["batch_inputs"].is_null());
  EXPECT_EQ(json["per_second"]["answered"], 0.0);
}

}  // namespace
}  // namespace lion::bench
