// Meters of a made-up powercap tree.
#include "daemon/measure/power.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace flyball::measure {
namespace {

class Powercap : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "flyball-power-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void meter(const std::string& name, std::uint64_t used) const {
    std::filesystem::create_directories(root_ / name);
    std::ofstream(root_ / name / "energy_uj") << used << "\n";
    std::ofstream(root_ / name / "max_energy_range_uj") << 1'000'000'000 << "\n";
  }
  std::filesystem::path root_;
};

TEST_F(Powercap, NoMetersNoWatts) {
  EXPECT_FALSE(read_energy(root_));
  EXPECT_FALSE(read_energy(root_ / "absent"));
  EXPECT_FALSE(watts_since(std::nullopt));
  std::filesystem::create_directories(root_ / "intel-rapl:0");  // as where only root may read
  EXPECT_FALSE(read_energy(root_));
}

TEST_F(Powercap, PackagesTogetherAndAroundTheEndOfAMeter) {
  meter("intel-rapl:0", 5'000'000);
  meter("intel-rapl:1", 999'000'000);
  meter("intel-rapl:0:0", 77);  // a part of the first package
  auto before = read_energy(root_);
  ASSERT_TRUE(before);
  ASSERT_EQ(before->packages.size(), 2U);
  meter("intel-rapl:0", 25'000'000);
  meter("intel-rapl:1", 9'000'000);
  auto after = read_energy(root_);
  ASSERT_TRUE(after);
  after->at = before->at + std::chrono::seconds(2);
  const auto watts = watts_between(*before, *after);
  ASSERT_TRUE(watts);
  EXPECT_DOUBLE_EQ(*watts, (20.0 + 10.0) / 2);
  after->at = before->at;
  EXPECT_FALSE(watts_between(*before, *after));
  after->at = before->at + std::chrono::seconds(2);
  after->packages.pop_back();
  EXPECT_FALSE(watts_between(*before, *after));
}

}  // namespace
}  // namespace flyball::measure
