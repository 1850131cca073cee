// A whole engine over several OpenCL devices: its answers are those of one device, through prefix sharing and
// preemption, and it says what each device holds.
#include <gmock/gmock.h>

#include "tests/backends/local/spill_cases.hpp"
#include "tests/backends/opencl/split_support.hpp"

namespace flyball::test {
namespace {

class SharingOverDevices : public SharingModel, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_many_devices()) GTEST_SKIP() << "this machine does not offer three OpenCL devices";
  }
  static std::unique_ptr<Backend> make(std::size_t devices, std::uint32_t sequences, std::uint32_t blocks = 0,
                                       std::uint32_t step_tokens = 64) {
    auto o = options(GetParam(), sequences, blocks, step_tokens);
    o.backend = "opencl";
    o.opencl = any_devices(devices);
    o.cache_dir = kernel_caches();
    return make_backend(o);
  }
};

TEST_P(SharingOverDevices, ColdEqualsPrefixHitEqualsOneDevice) {
  const auto two = make(2, 4);
  expect_cold_equals_prefix_hit(*two);
  expect_same(wait(*make(1, 1), request(7, 100, 20, 1, 40)), wait(*two, request(7, 100, 20, 1, 40)));
}

TEST_P(SharingOverDevices, ACopiedBlockEqualsAComputedOne) {
  expect_copied_equals_computed(*make(1, 1), *make(2, 6));
}

TEST_P(SharingOverDevices, BeforeEqualsAfterPreemption) {
  expect_before_equals_after_preemption(*make(1, 1), *make(2, 4, kTightBlocks, 7));
}

TEST_P(SharingOverDevices, TheEngineSaysWhatEachDeviceHolds) {
  const auto two = make(2, 2);
  const BackendInfo& info = two->info();
  ASSERT_EQ(info.devices.size(), 2U);
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const DeviceShare& share = info.devices[i];
    EXPECT_THAT(share.device, testing::HasSubstr("#" + std::to_string(i) + " ("));
    EXPECT_EQ(share.first_layer, i);
    EXPECT_EQ(share.n_layers, 1U);
    EXPECT_EQ(share.kv_bytes, info.kv_bytes / 2);
    bytes += share.total_bytes();
  }
  EXPECT_EQ(bytes, info.weight_bytes + info.kv_bytes + info.scratch_bytes);
  EXPECT_THAT(to_string(info.devices[1]), testing::HasSubstr("): layers 2 to 2, "));
}

INSTANTIATE_TEST_SUITE_P(KvTypes, SharingOverDevices, testing::Values("f16", "q8_0"),
                         [](const auto& i) { return std::string(i.param); });

class SpillOverDevices : public SpillModel {
 protected:
  void SetUp() override {
    if (!has_many_devices()) GTEST_SKIP() << "this machine does not offer three OpenCL devices";
    SpillModel::SetUp();
  }
};

TEST_F(SpillOverDevices, ASessionReturnsAfterARestart) {
  auto o = options("f16", 2);
  o.backend = "opencl";
  o.opencl = any_devices(2);
  o.cache_dir = kernel_caches();
  expect_same_after_a_restart(o);
}

}  // namespace
}  // namespace flyball::test
