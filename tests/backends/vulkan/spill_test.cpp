// KV that goes from a Vulkan device to the disk and comes back.
#include "tests/backends/local/spill_cases.hpp"
#include "tests/backends/vulkan/support.hpp"

namespace flyball::test {
namespace {

class SpillOnVulkan : public SpillModel, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_vulkan_device()) GTEST_SKIP() << "this machine has no Vulkan device that the engine can use";
    SpillModel::SetUp();
    rounds_ = vulkan_device_is_a_gpu();
  }
  static local::LocalBackendOptions plain() {
    auto o = options(GetParam(), 2);
    o.backend = "vulkan";
    o.vulkan = any_vulkan_device();
    o.cache_dir = kernel_caches();
    return o;
  }
};

TEST_P(SpillOnVulkan, ASessionReturnsAfterARestart) {
  expect_same_after_a_restart(plain());
}

TEST_P(SpillOnVulkan, ASessionReturnsAfterEviction) {
  expect_same_after_eviction(plain());
}

// A driver may fail at integer dot products one day and not the next, and the device's name stays.
TEST_P(SpillOnVulkan, WhatDotsMadeFloatsDoNotTakeUp) {
  auto dots = spilling(plain()), floats = dots;
  dots.vulkan.integer_dot = true;
  floats.vulkan.integer_dot = false;
  if (!vulkan::Device::open(dots.vulkan).value()->facts().integer_dot)
    GTEST_SKIP() << "the device has no integer dot products";
  const auto cached = [this](const local::LocalBackendOptions& options) {
    const auto backend = make_backend(options);
    const std::uint32_t tokens = wait(*backend, session()).usage().cached_tokens;
    drain(*backend);
    return tokens;
  };
  EXPECT_EQ(cached(dots), 0U);
  EXPECT_EQ(cached(floats), 0U);
  EXPECT_GT(cached(dots), 0U);
}

INSTANTIATE_TEST_SUITE_P(KvTypes, SpillOnVulkan, testing::Values("f16", "q8_0"),
                         [](const auto& i) { return std::string(i.param); });

// Where the host does not reach the device's memory, too.
class VulkanBlocks : public VulkanTest, public testing::WithParamInterface<bool> {};

TEST_P(VulkanBlocks, ABlockThatWasMovedIsAsGoodAsTheOneItWas) {
  const auto m = synthetic_model(kernels::DType::f16, shape_for(kernels::DType::f16));
  auto options = vulkan_options();
  options.stage_kv = GetParam();
  const auto device = with_kv(vulkan::make_vulkan_executor(*m.file, options), *m.file, kernels::DType::f16);
  const auto tokens = random_tokens(33, 300);
  const std::vector<Token> beginning(tokens.begin(), tokens.end() - 1), last{tokens.back()};
  run_step(*device, {{beginning, 0, {5, 3}, true}}, m.vocab());
  const auto expected = run_step(*device, {{last, 32, {5, 3, 7}, true}}, m.vocab());

  std::vector<std::byte> first(device->block_bytes()), second(device->block_bytes());
  const device::BlockRead reads[] = {{5, first}, {3, second}};
  ASSERT_TRUE(device->read_blocks(reads));
  const auto other = random_tokens(32, 300, 9);
  run_step(*device, {{other, 0, {5, 3}, true}}, m.vocab());  // they are somebody else's now
  const device::BlockWrite writes[] = {{8, first}, {2, second}};
  ASSERT_TRUE(device->write_blocks(writes));
  EXPECT_EQ(run_step(*device, {{last, 32, {8, 2, 7}, true}}, m.vocab()), expected);
}

INSTANTIATE_TEST_SUITE_P(Ways, VulkanBlocks, testing::Bool(),
                         [](const auto& i) { return i.param ? "staged" : "as_it_is"; });

}  // namespace
}  // namespace flyball::test
