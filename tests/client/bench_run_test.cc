// Load tests against a server of known behaviour, in virtual time: what is reported is compared with the truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "absl/strings/cord.h"
#include "absl/strings/str_join.h"
#include "client/cli/bench/random.h"
#include "client/cli/bench/runner.h"
#include "client/cli/bench/summary.h"
#include "tests/client/simulated_server.h"

namespace lion::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class BenchRunTest : public ::testing::Test {
 protected:
  RunRecord Open(ArrivalPlan& arrivals) {
    SizeDraw sizes(mix_, 3);
    return RunOpenLoop(arrivals, limits_, Parts(sizes));
  }
  RunRecord OpenConstant(double rate) {
    flags_.rate = rate;
    flags_.max_in_flight = limits_.max_in_flight;
    return Open(*ConstantArrivals(rate));
  }
  RunRecord OpenPoisson(double rate) {
    flags_.rate = rate;
    flags_.max_in_flight = limits_.max_in_flight;
    return Open(*PoissonArrivals(rate, 11));
  }
  RunRecord Closed(int64_t concurrency) {
    flags_.concurrency = concurrency;
    SizeDraw sizes(mix_, 3);
    return RunClosedLoop(concurrency, limits_, Parts(sizes));
  }
  Summary Summed(const RunRecord& record) { return Summarize(flags_, mix_, record); }
  static std::string Warned(const Summary& summary) { return absl::StrJoin(summary.warnings, "\n"); }

  RunParts Parts(SizeDraw& sizes) { return {&sizes, mix_.size(), &server_, &server_, &stops_}; }

  std::vector<SizeShare> mix_ = {{224, 224, 1}};
  RunLimits limits_{.duration_ns = 10 * kSecond};
  SimulatedServer server_{1000};
  std::atomic<int> stops_ = 0;
  BenchFlags flags_;
};

// The value that `beyond` of the values exceed.
double Truth(std::vector<int64_t> values, int64_t one_in) {
  std::sort(values.begin(), values.end());
  return static_cast<double>(values[values.size() - values.size() / one_in - 1]);
}

// 10 ms for 95 of 100 calls and 50 ms for the others, each up to a tenth more or less.
std::function<int64_t(int64_t)> TwoHumps(Random& random) {
  return [&random](int64_t) {
    const double base = Uniform(random) < 0.95 ? 10e6 : 50e6;
    return std::llround(base * (0.9 + 0.2 * Uniform(random)));
  };
}

TEST_F(BenchRunTest, PercentilesAreThoseOfTheServer) {
  Random random(1);
  server_.service_ns = TwoHumps(random);
  limits_.duration_ns = 100 * kSecond;
  const Summary summary = Summed(OpenPoisson(300));
  ASSERT_GT(summary.succeeded, 29'000);
  ASSERT_EQ(summary.succeeded, static_cast<int64_t>(server_.latencies_ns.size()));
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    ASSERT_TRUE(summary.from_schedule.percentiles_ns[i].has_value());
    const double truth = Truth(server_.latencies_ns, kPercentiles[i].one_in);
    EXPECT_NEAR(static_cast<double>(*summary.from_schedule.percentiles_ns[i]), truth, 0.0005 * truth);
    EXPECT_EQ(summary.from_send.percentiles_ns[i], summary.from_schedule.percentiles_ns[i]);
  }
  // And that is what such a server has, within 2 %: of the quantiles of the mixture, p99 is four fifths up the second
  // hump.
  EXPECT_NEAR(static_cast<double>(*summary.from_schedule.percentiles_ns[0]), 9e6 + 2e6 * 0.5 / 0.95, 0.02 * 10e6);
  EXPECT_NEAR(static_cast<double>(*summary.from_schedule.percentiles_ns[2]), 45e6 + 10e6 * 0.8, 0.02 * 53e6);
  EXPECT_EQ(summary.from_schedule.max_ns, *std::max_element(server_.latencies_ns.begin(), server_.latencies_ns.end()));
  EXPECT_NEAR(summary.from_schedule.mean_ns, 12e6, 0.02 * 12e6);
  EXPECT_NEAR(summary.answered, 300, 6);
  EXPECT_EQ(summary.server_total.count, summary.succeeded);
  EXPECT_EQ(summary.outside_server.max_ns, 0);
  EXPECT_EQ(summary.batch_inputs, 4);
  EXPECT_NEAR(summary.tokens, 50 * summary.images, 1e-6 * summary.tokens);
  EXPECT_THAT(summary.warnings, IsEmpty());
}

// One worker, so that calls queue: the distribution is then no longer that of the service.
TEST_F(BenchRunTest, WaitingInTheServersQueueIsPartOfTheLatency) {
  Random random(2);
  server_ = SimulatedServer(1);
  server_.service_ns = [&random](int64_t) { return std::llround(-5e6 * std::log1p(-Uniform(random))); };
  limits_.duration_ns = 2000 * kSecond;
  const Summary summary = Summed(OpenPoisson(100));  // M/M/1 at half load: exponential with a mean of 10 ms
  EXPECT_NEAR(summary.from_schedule.mean_ns, 10e6, 0.02 * 10e6);
  EXPECT_NEAR(static_cast<double>(*summary.from_schedule.percentiles_ns[0]), 10e6 * std::log(2), 0.02 * 7e6);
  EXPECT_NEAR(static_cast<double>(*summary.from_schedule.percentiles_ns[2]), 10e6 * std::log(100), 0.02 * 46e6);
  EXPECT_THAT(summary.warnings, IsEmpty());
}

TEST_F(BenchRunTest, AStallOfOneSecondShowsInTheP99OfAnOpenLoop) {
  server_.service_ns = [](int64_t) { return 5 * kMs; };
  server_.stall_from_ns = server_.NowNs() + 10 * kSecond;
  server_.stall_until_ns = server_.stall_from_ns + kSecond;
  limits_.duration_ns = 20 * kSecond;
  const Summary summary = Summed(OpenConstant(100));
  ASSERT_EQ(summary.succeeded, 2000);
  // 100 of 2000 calls come during the stall and wait for what is left of it: the 20 worst of them at least 0.8 s.
  EXPECT_NEAR(static_cast<double>(*summary.from_schedule.percentiles_ns[2]), 805e6, 0.02 * 805e6);
  EXPECT_EQ(summary.from_schedule.max_ns, 1005 * kMs);
  EXPECT_EQ(*summary.from_schedule.percentiles_ns[0] / 10'000, 500);
}

TEST_F(BenchRunTest, TheSameStallHidesFromAClosedLoop) {
  server_.service_ns = [](int64_t) { return 5 * kMs; };
  server_.stall_from_ns = server_.NowNs() + 10 * kSecond;
  server_.stall_until_ns = server_.stall_from_ns + kSecond;
  limits_.duration_ns = 20 * kSecond;
  const Summary summary = Summed(Closed(1));
  EXPECT_GT(summary.succeeded, 3000);
  EXPECT_LT(*summary.from_send.percentiles_ns[2], 6 * kMs);
  EXPECT_EQ(summary.from_send.max_ns, 1005 * kMs);
}

TEST_F(BenchRunTest, ARateThatTheServerCannotKeepIsReported) {
  server_ = SimulatedServer(1);
  server_.service_ns = [](int64_t) { return 20 * kMs; };
  limits_.max_in_flight = 8;
  const Summary summary = Summed(OpenConstant(200));
  EXPECT_EQ(summary.scheduled, 2000);
  EXPECT_EQ(summary.sent + summary.not_sent_in_flight, 2000);
  EXPECT_EQ(server_.most_in_flight, 8);
  EXPECT_NEAR(summary.arrived, 200, 0.2);
  EXPECT_NEAR(summary.answered, 50, 0.5);
  EXPECT_LT(summary.from_schedule.max_ns, 170 * kMs);  // never sent later instead
  EXPECT_THAT(Warned(summary), HasSubstr("THE RATE WAS NOT KEPT: of 200 calls a second, 50"));
  EXPECT_THAT(Warned(summary), HasSubstr(" calls not sent, with 8 unanswered (--max-in-flight)"));
  EXPECT_THAT(Warned(summary), HasSubstr("know nothing of "));
}

TEST_F(BenchRunTest, AQueueThatGrowsAllTheTimeIsReportedThoughEveryCallSucceeds) {
  server_ = SimulatedServer(1);
  server_.service_ns = [](int64_t) { return 20 * kMs; };
  limits_.max_in_flight = 1'000'000;
  const Summary summary = Summed(OpenPoisson(200));
  EXPECT_EQ(summary.succeeded, summary.scheduled);
  EXPECT_NEAR(summary.answered, 50, 0.5);
  EXPECT_THAT(Warned(summary), HasSubstr("THE RATE WAS NOT KEPT"));
  EXPECT_THAT(Warned(summary), HasSubstr("the latency grew all the time"));
}

TEST_F(BenchRunTest, ASlowServerThatKeepsUpIsNotReported) {
  server_.service_ns = [](int64_t) { return 5 * kSecond; };
  const Summary summary = Summed(OpenConstant(1));
  EXPECT_EQ(summary.succeeded, 10);
  EXPECT_NEAR(summary.answered, 1, 1e-9);
  EXPECT_THAT(summary.warnings, IsEmpty());
}

TEST_F(BenchRunTest, OneVeryLargeImageAtTheEndIsNoBacklog) {
  server_.service_ns = [](int64_t call) { return call == 599 ? 8 * kSecond : 20 * kMs; };
  limits_.duration_ns = 60 * kSecond;
  const Summary summary = Summed(OpenConstant(10));
  EXPECT_EQ(summary.succeeded, 600);
  EXPECT_THAT(summary.warnings, IsEmpty());
}

TEST_F(BenchRunTest, AClientThatCannotKeepTheRateIsReported) {
  server_.send_ns = 10 * kMs;
  limits_.duration_ns = 4 * kSecond;
  limits_.max_in_flight = 1'000'000;
  const Summary summary = Summed(OpenConstant(200));
  EXPECT_EQ(summary.scheduled, 800);
  // 100 a second, for the duration and a second of grace.
  EXPECT_EQ(summary.sent, 500);
  EXPECT_EQ(summary.not_sent_late, 300);
  EXPECT_NEAR(static_cast<double>(summary.send_lag.max_ns), 2.5e9, 0.02e9);
  // From the schedule the client's lag counts, from the sending it does not.
  EXPECT_NEAR(static_cast<double>(summary.from_schedule.max_ns), 2.51e9, 0.02e9);
  EXPECT_LE(summary.from_send.max_ns, 20 * kMs);
  EXPECT_NEAR(summary.answered, 100, 1);
  EXPECT_THAT(Warned(summary), HasSubstr("300 calls not sent, since this client was too slow"));
  EXPECT_THAT(Warned(summary), HasSubstr("This client was late: calls left up to 2495.0 ms (max) after they were due"));
}

TEST_F(BenchRunTest, TheWarmUpIsSentAndNotCounted) {
  const int64_t start_ns = server_.NowNs();
  server_.service_ns = [&](int64_t) { return server_.NowNs() < start_ns + 2 * kSecond ? 900 * kMs : 10 * kMs; };
  server_.status = [](int64_t call) { return call < 5 ? absl::InternalError("cold") : absl::OkStatus(); };
  limits_.warm_up_ns = 2 * kSecond;
  const RunRecord record = OpenConstant(100);
  const Summary summary = Summed(record);
  EXPECT_EQ(summary.warm_up_calls, 200);
  EXPECT_EQ(server_.calls, 1200);
  EXPECT_EQ(summary.scheduled, 1000);
  EXPECT_EQ(summary.succeeded, 1000);
  EXPECT_EQ(summary.failed, 0);
  EXPECT_EQ(summary.from_schedule.max_ns, 10 * kMs);
  EXPECT_EQ(summary.send_lag.count, 1000);
  EXPECT_EQ(record.sent_bytes, 1000 * 1000);
  EXPECT_EQ(record.window_ns, 10 * kSecond);
}

TEST_F(BenchRunTest, ANumberOfCallsEndsTheRunInPlaceOfADuration) {
  limits_ = {.warm_up_ns = kSecond, .calls = 77};
  EXPECT_EQ(OpenPoisson(50).sent, 77);
  EXPECT_EQ(server_.in_flight, 0);
  const Summary closed = Summed(Closed(3));
  EXPECT_EQ(closed.sent, 77);
  EXPECT_EQ(closed.succeeded, 77);
}

TEST_F(BenchRunTest, ErrorsAreCountedByCodeAndAreInNoLatencyButTheirOwn) {
  server_.service_ns = [](int64_t call) { return call % 10 == 0 ? 900 * kMs : 10 * kMs; };
  server_.status = [](int64_t call) {
    if (call % 10 != 0) return absl::OkStatus();
    return call % 40 == 0 ? absl::DeadlineExceededError("late " + std::to_string(call))
                          : absl::ResourceExhaustedError("full " + std::to_string(call));
  };
  const Summary summary = Summed(OpenConstant(100));
  EXPECT_EQ(summary.sent, 1000);
  EXPECT_EQ(summary.succeeded, 900);
  EXPECT_EQ(summary.failed, 100);
  EXPECT_EQ(summary.from_schedule.count, 900);
  EXPECT_EQ(summary.from_schedule.max_ns, 10 * kMs);
  ASSERT_EQ(summary.failures.size(), 2u);
  EXPECT_EQ(summary.failures[0].from_send.count, 75);
  EXPECT_EQ(summary.failures[0].example, absl::ResourceExhaustedError("full 10"));
  EXPECT_EQ(summary.failures[1].from_send.count, 25);
  EXPECT_EQ(summary.failures[0].from_send.max_ns, 900 * kMs);
  EXPECT_TRUE(absl::IsDeadlineExceeded(summary.failures[1].example));
  EXPECT_NEAR(summary.answered, 90, 0.2);
  EXPECT_THAT(Warned(summary), HasSubstr("100 calls failed"));
}

TEST_F(BenchRunTest, AServerThatDiesEarlyIsNotCreditedWithItsFirstSecond) {
  server_.status = [](int64_t call) { return call < 100 ? absl::OkStatus() : absl::UnavailableError("gone"); };
  const Summary summary = Summed(OpenConstant(100));
  EXPECT_NEAR(summary.answered, 10, 0.1);
  EXPECT_THAT(Warned(summary), HasSubstr("of 100 calls a second, 10 were answered (10 %): 900 calls failed."));
}

TEST_F(BenchRunTest, AClosedLoopKeepsItsCallsInFlight) {
  const Summary summary = Summed(Closed(4));
  EXPECT_EQ(server_.most_in_flight, 4);
  EXPECT_EQ(summary.succeeded, 4000);
  EXPECT_NEAR(summary.answered, 400, 1);
  EXPECT_EQ(summary.from_send.max_ns, 10 * kMs);
  EXPECT_EQ(summary.send_lag.max_ns, 0);
  EXPECT_THAT(summary.warnings, IsEmpty());
}

TEST_F(BenchRunTest, AClosedLoopInLockStepIsNotCreditedWithMoreThanItDid) {
  server_.service_ns = [](int64_t) { return 10 * kSecond; };
  limits_.duration_ns = 25 * kSecond;
  const Summary summary = Summed(Closed(8));
  EXPECT_EQ(summary.succeeded, 24);
  EXPECT_NEAR(summary.answered, 0.8, 1e-9);
}

// 16 a second: a sixteenth of a second apart, each place for a second.
std::function<int64_t(int64_t)> Staggered() {
  return [](int64_t call) { return call < 16 ? (call + 1) * kSecond / 16 : kSecond; };
}

TEST_F(BenchRunTest, AClosedLoopIsFullFromTheWarmUp) {
  server_.service_ns = Staggered();
  for (const int64_t warm_up_ns : {kSecond, 1'530 * kMs}) {
    limits_.warm_up_ns = warm_up_ns;
    const Summary summary = Summed(Closed(16));
    EXPECT_NEAR(static_cast<double>(summary.succeeded), 160, 1);
    EXPECT_NEAR(summary.answered, 16, 0.02 * 16);
    EXPECT_NEAR(summary.images, 16, 0.02 * 16);
    EXPECT_NEAR(summary.tokens, 50 * 16, 0.02 * 50 * 16);
    EXPECT_NEAR(summary.sent_bytes, 1000 * 16, 0.02 * 1000 * 16);
  }
}

TEST_F(BenchRunTest, AClosedLoopOfANumberOfCallsIsFullFromTheWarmUp) {
  server_.service_ns = Staggered();
  limits_ = {.warm_up_ns = 1'530 * kMs, .calls = 40};
  const Summary summary = Summed(Closed(16));
  EXPECT_EQ(summary.succeeded, 40);
  EXPECT_NEAR(summary.answered, 16, 0.02 * 16);
}

// Whether the window holds two or three rounds of answers is chance.
TEST_F(BenchRunTest, AClosedLoopInLockStepIsNotAtTheMercyOfItsWindow) {
  server_.service_ns = [](int64_t) { return 10 * kSecond; };
  limits_.duration_ns = 25 * kSecond;
  for (const int64_t warm_up_ns : {kSecond, 8 * kSecond}) {
    limits_.warm_up_ns = warm_up_ns;
    EXPECT_NEAR(Summed(Closed(8)).answered, 0.8, 0.02 * 0.8);
  }
}

TEST_F(BenchRunTest, OneVeryLongCallAtTheEndOfAWarmClosedLoopIsNoLossOfThroughput) {
  server_.service_ns = [](int64_t call) { return call == 4300 ? 8 * kSecond : 10 * kMs; };
  limits_.warm_up_ns = kSecond;
  EXPECT_NEAR(Summed(Closed(4)).answered, 400, 0.02 * 400);
}

TEST_F(BenchRunTest, FailuresInAWarmClosedLoopAreNotAnswers) {
  server_.status = [](int64_t call) { return call % 2 == 0 ? absl::OkStatus() : absl::InternalError("odd"); };
  server_.service_ns = [](int64_t) { return 100 * kMs; };
  limits_.warm_up_ns = kSecond;
  // A place is taken for 100 ms by a success, and for 200 ms by an error and the rest after it.
  EXPECT_NEAR(Summed(Closed(1)).answered, 1 / 0.3, 0.02 / 0.3);
}

TEST_F(BenchRunTest, AClosedLoopRestsAfterAnErrorForAsLongAsTheServerAsks) {
  server_.service_ns = [](int64_t) { return kMs; };
  server_.status = [](int64_t) { return absl::UnavailableError("gone"); };
  EXPECT_NEAR(static_cast<double>(Closed(2).sent), 2 * 10'000 / 101, 2);  // 100 ms unless told
  server_.status = [](int64_t) {
    absl::Status busy = absl::ResourceExhaustedError("full");
    busy.SetPayload("lion.v1/grpc-retry-pushback-ms", absl::Cord("999"));
    return busy;
  };
  EXPECT_EQ(Closed(2).sent, 20);
}

TEST_F(BenchRunTest, AStopEndsTheScheduleAndWaitsForWhatIsInFlight) {
  server_.service_ns = [](int64_t) { return 2 * kSecond; };
  server_.At(server_.NowNs() + 3 * kSecond, [&] { ++stops_; });
  const Summary summary = Summed(OpenConstant(10));
  EXPECT_EQ(summary.scheduled, 30);
  EXPECT_EQ(summary.succeeded, 30);
  EXPECT_TRUE(summary.ended_early);
  EXPECT_NEAR(summary.window_s, 3, 0.11);
  EXPECT_NEAR(summary.answered, 10, 0.1);
  EXPECT_THAT(Warned(summary), HasSubstr("The run was ended early, after 3."));
}

TEST_F(BenchRunTest, ASecondStopCutsOffWhatIsInFlight) {
  server_.service_ns = [](int64_t call) { return call < 20 ? 10 * kMs : 3600 * kSecond; };
  server_.At(server_.NowNs() + 3 * kSecond, [&] { ++stops_; });
  server_.At(server_.NowNs() + 5 * kSecond, [&] { ++stops_; });
  const int64_t start_ns = server_.NowNs();
  const Summary summary = Summed(OpenConstant(10));
  EXPECT_LT(server_.NowNs() - start_ns, 5.2 * kSecond);
  EXPECT_EQ(summary.succeeded, 20);
  EXPECT_EQ(summary.cut_off, 10);
  EXPECT_EQ(server_.cancelled, 10);
  EXPECT_EQ(summary.failed, 0);
  EXPECT_THAT(Warned(summary), HasSubstr("10 calls cut off unanswered"));
}

TEST_F(BenchRunTest, AStopAfterTheScheduleCutsOffAtOnce) {
  server_.service_ns = [](int64_t) { return 3600 * kSecond; };
  server_.At(server_.NowNs() + 12 * kSecond, [&] { ++stops_; });
  const int64_t start_ns = server_.NowNs();
  const Summary summary = Summed(Closed(2));
  EXPECT_LT(server_.NowNs() - start_ns, 12.2 * kSecond);
  EXPECT_EQ(summary.cut_off, 2);
  EXPECT_FALSE(summary.ended_early);
}

TEST_F(BenchRunTest, AStopEndsAClosedLoop) {
  server_.At(server_.NowNs() + kSecond, [&] { ++stops_; });
  const Summary summary = Summed(Closed(2));
  EXPECT_NEAR(static_cast<double>(summary.succeeded), 200, 4);
  EXPECT_TRUE(summary.ended_early);
}

TEST_F(BenchRunTest, SizesAreDrawnFromTheMixAndReportedApart) {
  mix_ = *ParseSizeMix("224:9,1024:1");
  server_.service_ns = [this](int64_t call) { return server_.sizes[call] == 0 ? 10 * kMs : 300 * kMs; };
  limits_.duration_ns = 50 * kSecond;
  const Summary summary = Summed(OpenPoisson(100));
  ASSERT_EQ(summary.sizes.size(), 2u);
  const int64_t large = std::count(server_.sizes.begin(), server_.sizes.end(), 1u);
  EXPECT_EQ(summary.sizes[1].latency.count, large);
  EXPECT_EQ(summary.sizes[0].latency.count, summary.succeeded - large);
  EXPECT_NEAR(static_cast<double>(large) / static_cast<double>(summary.succeeded), 0.1, 0.02);
  EXPECT_EQ(summary.sizes[0].latency.max_ns, 10 * kMs);
  EXPECT_EQ(summary.sizes[1].latency.max_ns, 300 * kMs);
  EXPECT_EQ(summary.sizes[1].tokens_per_image, 50);
  // 500 of the larger ones do not support a p99; all together do.
  EXPECT_EQ(summary.sizes[1].latency.percentiles_ns[2], std::nullopt);
  EXPECT_NE(summary.from_schedule.percentiles_ns[2], std::nullopt);
}

TEST_F(BenchRunTest, AServerWithoutTimingsHasNoneInTheReport) {
  Successes successes;
  Answer answer;
  answer.images = 1;
  successes.Add(answer, {0, 1, 5});
  answer.timing = {.total_ns = 3, .batch_inputs = 2};
  successes.Add(answer, {10, 12, 16});
  EXPECT_EQ(successes.Count(), 2);
  EXPECT_EQ(successes.CountWithTimings(), 1);
  EXPECT_EQ(successes.from_schedule.max_ns(), 6);
  EXPECT_EQ(successes.from_send.max_ns(), 4);
  EXPECT_EQ(successes.outside_server.max_ns(), 1);
}

TEST(RealClockTest, NeverWakesEarly) {
  RealClock clock;
  for (const int64_t sleep_ns : {-kSecond, int64_t{0}, int64_t{10'000}, int64_t{60'000}, 3 * kMs}) {
    const int64_t when_ns = clock.NowNs() + sleep_ns;
    clock.SleepUntil(when_ns);
    EXPECT_GE(clock.NowNs(), when_ns);
  }
}

TEST_F(BenchRunTest, ARunWithoutACallHasNoRates) {
  ++stops_;
  for (const Summary& summary : {Summed(OpenConstant(100)), Summed(Closed(2))}) {
    EXPECT_EQ(summary.scheduled, 0);
    EXPECT_EQ(summary.arrived, 0);
    EXPECT_EQ(summary.answered, 0);
    EXPECT_EQ(summary.from_schedule.count, 0);
    EXPECT_THAT(Warned(summary), Not(HasSubstr("NOT KEPT")));
  }
}

}  // namespace
}  // namespace lion::bench
