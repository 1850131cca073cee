// Pressure stall information: what is read of it, and of what is none.
#include "daemon/fleet/pressure.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "daemon/fleet/pools.hpp"
#include "daemon/fleet/touched.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::fleet {
namespace {

constexpr const char* kQuiet =
    "some avg10=0.50 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=3\n";

TEST(Pressure, IsReadAsTheKernelWritesIt) {
  const auto quiet = parse_pressure(kQuiet);
  ASSERT_TRUE(quiet);
  EXPECT_EQ(quiet->some, 0.5);
  EXPECT_EQ(quiet->full, 0.25);
  EXPECT_FALSE(quiet->high());
  const auto high = parse_pressure(
      "some avg10=20.00 avg60=9.00 avg300=1.00 total=12\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=3\n");
  ASSERT_TRUE(high);
  EXPECT_TRUE(high->high());
}

TEST(Pressure, IsNotReadFromAnythingElse) {
  for (const char* text :
       {"", "some", "some avg10=", "some avg10=1.00", "some avg10=1.00 \n", "some avg10=x full avg10=1 ",
        "some avg10=101.00 avg60=0\nfull avg10=0.00 avg60=0\n",
        "some avg10=-1.00 avg60=0\nfull avg10=0.00 avg60=0\n",
        "some avg10=nan avg60=0\nfull avg10=0.00 avg60=0\n", "awesome avg10=1.00 a\nfull avg10=1.00 a\n"})
    EXPECT_FALSE(parse_pressure(text)) << text;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(Pressure, IsTheGroupsWhereThatIsHigher) {
  const test::TempDir dir;
  const auto proc = dir.path() / "proc", groups = dir.path() / "cgroup";
  const auto read = [&] { return read_memory_pressure(proc, groups); };
  EXPECT_FALSE(read());
  write(proc / "pressure/memory", kQuiet);
  EXPECT_EQ(read()->some, 0.5);
  write(proc / "self/cgroup", "1:cpu:/x\n0::/service\n");
  EXPECT_EQ(read()->some, 0.5);
  write(groups / "service/memory.pressure",
        "some avg10=40.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=1\n");
  EXPECT_EQ(read()->some, 40);
  std::filesystem::remove(proc / "pressure/memory");
  EXPECT_EQ(read()->some, 40);
}

TEST(Pools, LeaveTheirReserveAndKeepToTheirLimit) {
  config::MemoryRules rules;
  constexpr std::uint64_t kGiB = 1ULL << 30U;
  const std::vector<DeviceMemory> devices{{"GPU", 24 * kGiB, {{"opencl", 24 * kGiB}, {"vulkan", 16 * kGiB}}}};
  auto pools = memory_pools(rules, 16 * kGiB, devices);
  ASSERT_EQ(pools.size(), 2U);
  EXPECT_EQ(pools[0].capacity, 15 * kGiB);
  EXPECT_TRUE(pools[0].of_the_machine);
  EXPECT_EQ(pools[1].capacity, 24 * kGiB - 3 * kGiB / 2);
  EXPECT_FALSE(pools[1].of_the_machine);
  rules.reserve = 4 * kGiB;
  rules.device_limit = kGiB;
  pools = memory_pools(rules, 16 * kGiB, devices);
  EXPECT_EQ(pools[0].capacity, 12 * kGiB);
  EXPECT_EQ(pools[1].capacity, kGiB);
  rules.limit = 100 * kGiB;  // more than there is
  EXPECT_EQ(memory_pools(rules, 16 * kGiB, devices)[0].capacity, 12 * kGiB);
  EXPECT_GT(memory_pools(rules, 0, devices)[0].capacity, 99 * kGiB);  // the system does not say
  EXPECT_EQ(memory_pools(rules, 3 * kGiB, devices)[0].capacity, 0U);
  EXPECT_EQ(pool_of("cpu", devices), 0U);
  EXPECT_EQ(pool_of("vulkan", devices), 1U);
  // One engine of it, which opens fewer devices.
  rules.device_limit = 0;
  rules.device_reserve = 1 * kGiB;
  EXPECT_EQ(most_of("opencl", rules, devices), 23 * kGiB);
  EXPECT_EQ(most_of("vulkan", rules, devices), 15 * kGiB);
  EXPECT_GT(most_of("cpu", rules, devices), 1024 * kGiB);
  EXPECT_EQ(available_to_engines(rules, 16 * kGiB, 5 * kGiB), kGiB);
  EXPECT_EQ(available_to_engines(rules, 16 * kGiB, kGiB), 0U);
  EXPECT_EQ(available_to_engines(rules, 16 * kGiB, 0), Governor::kUnknown);
}

TEST(TouchedMemory, IsWhatAProcessHasWritten) {
  constexpr std::size_t kBytes = 64 << 20;
  const auto before = touched_memory(getpid());
  ASSERT_TRUE(before);
  const auto pages = std::make_unique_for_overwrite<char[]>(kBytes);  // promised
  const auto promised = touched_memory(getpid());
  for (std::size_t i = 0; i < kBytes; i += 4096) static_cast<volatile char*>(pages.get())[i] = 1;
  const auto written = touched_memory(getpid());
  ASSERT_TRUE(promised && written);
  EXPECT_LT(*promised, *before + kBytes / 2);
  EXPECT_GE(*written, *before + kBytes / 4 * 3);
  EXPECT_FALSE(touched_memory(getpid(), "/nonexistent"));
}

}  // namespace
}  // namespace flyball::fleet
