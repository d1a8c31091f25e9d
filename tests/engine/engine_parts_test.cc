#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "engine/patch_order.h"
#include "engine/resources.h"

namespace lion {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> Scan(void (*order)(int64_t, int64_t, std::span<int32_t>), int64_t rows, int64_t columns) {
  std::vector<int32_t> places(1 + rows * columns, -1);
  order(rows, columns, places);
  return places;
}

TEST(PatchOrder, SerpentinesTurnAtEachEnd) {
  // Tokens of the 2 x 3 grid: 1 2 3 / 4 5 6.
  EXPECT_THAT(Scan(RowSerpentine, 2, 3), ElementsAre(0, 1, 2, 3, 6, 5, 4));
  EXPECT_THAT(Scan(ColumnSerpentine, 2, 3), ElementsAre(0, 1, 4, 5, 2, 3, 6));
  EXPECT_THAT(Scan(RowSerpentine, 1, 1), ElementsAre(0, 1));
}

TEST(PatchOrder, EveryTokenComesOnce) {
  for (const auto& [rows, columns] : {std::pair{1, 7}, {7, 1}, {5, 4}, {4, 5}}) {
    for (const auto order : {RowSerpentine, ColumnSerpentine}) {
      const std::vector<int32_t> places = Scan(order, rows, columns);
      EXPECT_EQ(std::set<int32_t>(places.begin(), places.end()).size(), static_cast<size_t>(1 + rows * columns));
      EXPECT_EQ(places[0], 0);
    }
  }
}

// A file system with the files given.
class Resources : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& content) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void SetUp() override {
    root_ = ::testing::TempDir() + "resources_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    Write("/proc/meminfo", "MemTotal:       24000000 kB\nMemFree:        1 kB\n");
  }
  std::string root_;
};

TEST_F(Resources, WithoutACgroupTheMachineIsTheLimit) {
  EXPECT_EQ(MemoryLimitBytes(root_), 24000000LL * 1024);
  EXPECT_EQ(CpuLimit(root_, 8), 8);
}

TEST_F(Resources, TheSmallestLimitOfACgroupAndItsParentsCounts) {
  Write("/proc/self/cgroup", "0::/kubepods/pod1/c1\n");
  Write("/sys/fs/cgroup/kubepods/pod1/c1/memory.max", "max\n");
  Write("/sys/fs/cgroup/kubepods/pod1/memory.max", "2147483648\n");
  Write("/sys/fs/cgroup/kubepods/memory.max", "8589934592\n");
  Write("/sys/fs/cgroup/kubepods/pod1/c1/cpu.max", "150000 100000\n");
  Write("/sys/fs/cgroup/kubepods/cpu.max", "max 100000\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 2147483648LL);
  EXPECT_EQ(CpuLimit(root_, 8), 2);
  EXPECT_EQ(CpuLimit(root_, 1), 1);
}

TEST_F(Resources, WhatIsAvailableIsTheLeastOfMachineAndCgroups) {
  Write("/proc/meminfo", "MemTotal:       24000000 kB\nMemFree:        1 kB\nMemAvailable:   9000000 kB\n");
  EXPECT_EQ(MemoryAvailableBytes(root_), 9000000LL * 1024);
  Write("/proc/self/cgroup", "0::/pod/c1\n");
  Write("/sys/fs/cgroup/pod/c1/memory.max", "max\n");
  Write("/sys/fs/cgroup/pod/c1/memory.current", "700\n");
  EXPECT_EQ(MemoryAvailableBytes(root_), 9000000LL * 1024);
  Write("/sys/fs/cgroup/pod/memory.max", "1000\n");
  Write("/sys/fs/cgroup/pod/memory.current", "900\n");
  EXPECT_EQ(MemoryAvailableBytes(root_), 100);
  Write("/sys/fs/cgroup/pod/memory.stat", "anon 500\nfile 300\ninactive_file 250\n");
  EXPECT_EQ(MemoryAvailableBytes(root_), 350) << "a cache of files makes room";
  Write("/sys/fs/cgroup/pod/memory.current", "1300\n");
  EXPECT_EQ(MemoryAvailableBytes(root_), 0);
}

TEST_F(Resources, WhatIsAvailableIsReadInVersionOne) {
  Write("/proc/self/cgroup", "5:memory:/docker/x\n");
  Write("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "3000\n");
  Write("/sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "2500\n");
  Write("/sys/fs/cgroup/memory/docker/x/memory.stat", "inactive_file 1\ntotal_inactive_file 400\n");
  EXPECT_EQ(MemoryAvailableBytes(root_), 900);
}

TEST_F(Resources, InAContainersNamespaceTheMountsRootCounts) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "1073741824\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 1073741824);
  EXPECT_EQ(CpuLimit(root_, 8), 1);
}

TEST_F(Resources, VersionOneIsRead) {
  Write("/proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n");
  Write("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "3221225472\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "300000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 3221225472LL);
  EXPECT_EQ(CpuLimit(root_, 8), 3);
}

}  // namespace
}  // namespace lion
