// Limits of the operating system, and the pools' answer when threads run out.
#include "server/process_limits.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <system_error>

#include "server/clock.h"
#include "server/prepare_pool.h"
#include "server/thread_pool.h"

namespace lion {
namespace {

// Threads want a stack that cannot be had.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_init(&attributes_);
    pthread_getattr_default_np(&attributes_);
    pthread_attr_t huge = attributes_;
    pthread_attr_setstacksize(&huge, size_t{1} << 46);
    pthread_setattr_default_np(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&attributes_);
    pthread_attr_destroy(&attributes_);
  }

 private:
  pthread_attr_t attributes_;
};

TEST(ProcessLimitsTest, TheSoftLimitOfOpenFilesIsRaisedToTheHardOne) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_GT(before.rlim_max, 64u);
  const rlimit low = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(RaiseOpenFileLimit(), static_cast<int64_t>(before.rlim_max));
  rlimit after = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(ProcessLimitsTest, ThreadsThatCannotBeHadAreAnError) {
  EXPECT_TRUE(CheckThreads(50).ok());
  const NoThreads none;
  const absl::Status status = CheckThreads(50);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(ProcessLimitsTest, PoolsThrowWhenAThreadCannotBeStarted) {
  SteadyClock clock;
  FairBudget bytes(1);
  const NoThreads none;
  EXPECT_THROW(ThreadPool("lion-test", 2), std::system_error);
  EXPECT_THROW(PreparePool({.threads = 2}, &clock, &bytes), std::system_error);
}

}  // namespace
}  // namespace lion
