// Limits of control groups, read from trees like those in /sys/fs/cgroup.
#include "backends/device/cgroup.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "backends/device/memory.hpp"

namespace flyball::cpu {
namespace {

struct CgroupTest : ::testing::Test {
  std::filesystem::path dir;
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    dir = std::filesystem::temp_directory_path() /
          ("flyball-cgroup-" + std::to_string(getpid()) + info->name());
  }
  void TearDown() override { std::filesystem::remove_all(dir); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((dir / path).parent_path());
    std::ofstream(dir / path) << text;
  }
  device::CgroupLimits limits() { return device::cgroup_limits(dir / "self", dir / "fs"); }
};

TEST_F(CgroupTest, TheLowestLimitOnTheWayUpCounts) {
  write("self", "0::/system.slice/flyball.service\n");
  write("fs/system.slice/memory.max", "1000000\n");
  write("fs/system.slice/memory.current", "700000\n");
  write("fs/system.slice/memory.stat", "anon 500000\nfile 200000\nkernel 0\n");
  write("fs/system.slice/cpu.max", "150000 100000\n");
  write("fs/system.slice/flyball.service/memory.max", "800000\n");
  write("fs/system.slice/flyball.service/memory.current", "100000\n");
  write("fs/system.slice/flyball.service/cpu.max", "max 100000\n");
  EXPECT_EQ(limits().memory, 800'000U);
  EXPECT_EQ(limits().memory_left, 500'000U)
      << "its own leaves 700000, the slice's less: page cache is not held";
  EXPECT_EQ(limits().processors, 1.5);
}

TEST_F(CgroupTest, SharedMemoryIsHeldThoughItIsCountedAsCache) {
  write("self", "0::/\n");
  write("fs/memory.max", "1000000\n");
  write("fs/memory.current", "700000\n");
  write("fs/memory.stat", "anon 100000\nfile 600000\nkernel 0\nshmem 450000\nfile_mapped 10\n");
  EXPECT_EQ(limits().memory_left, 450'000U);
}

TEST_F(CgroupTest, AContainerSeesItsLimitsAtTheRoot) {
  write("self", "0::/\n");
  write("fs/memory.max", "5000\n");
  write("fs/memory.current", "6000\n");
  write("fs/cpu.max", "50000 100000\n");
  EXPECT_EQ(limits().memory, 5'000U);
  EXPECT_EQ(limits().memory_left, 0U);
  EXPECT_EQ(limits().processors, 0.5);
}

TEST_F(CgroupTest, WhatCannotBeReadLimitsNothing) {
  const device::CgroupLimits none;
  EXPECT_EQ(limits().memory, none.memory);
  write("self", "12:memory:/docker/1\n0::/a\n");
  write("fs/memory.max", "max\n");
  write("fs/a/memory.max", "junk\n");
  write("fs/a/cpu.max", "100000 0\n");
  EXPECT_EQ(limits().memory, none.memory);
  EXPECT_EQ(limits().memory_left, none.memory_left);
  EXPECT_TRUE(std::isinf(limits().processors));
}

TEST_F(CgroupTest, ThisMachine) {
  EXPECT_GT(device::available_memory(), 0U);
  EXPECT_GE(device::total_memory(), device::available_memory());
}

}  // namespace
}  // namespace flyball::cpu
