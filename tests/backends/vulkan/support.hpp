// A Vulkan device for tests: whatever there is, software devices included. Where the validation layer is
// installed, it watches, and what it says fails the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/device.hpp"
#include "backends/vulkan/vulkan_device.hpp"
#include "tests/backends/cpu/executor_runs.hpp"
#include "tests/harness/kernel_caches.hpp"

namespace flyball::test {

inline vulkan::DeviceOptions any_vulkan_device() {
  vulkan::DeviceOptions options;
  options.allow_processor = true;
  options.validate = true;
  options.on_validation = [](const std::string& what) { ADD_FAILURE() << what; };
  return options;
}

// Open until the process ends: NVIDIA's driver, unloaded with the last device, is not always loaded again.
inline const std::shared_ptr<vulkan::Device>& first_vulkan_device() {
  static const auto* device =
      new std::shared_ptr<vulkan::Device>(vulkan::Device::open(any_vulkan_device()).value_or(nullptr));
  return *device;
}
inline bool has_vulkan_device() {
  return first_vulkan_device() != nullptr;
}
// A GPU may choose a kernel by the number of rows, and its sums then run in another order.
inline bool vulkan_device_is_a_gpu() {
  return has_vulkan_device() && !first_vulkan_device()->facts().processor;
}

class VulkanTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_vulkan_device()) GTEST_SKIP() << "this machine has no Vulkan device that the engine can use";
  }
};

inline vulkan::VulkanDeviceOptions vulkan_options(vulkan::WeightsIn weights = vulkan::WeightsIn::automatic) {
  vulkan::VulkanDeviceOptions options;
  options.device = any_vulkan_device();
  options.pipeline_cache = shared_pipelines();
  options.weights = weights;
  options.max_step_tokens = kRunStepTokens;
  options.max_logit_rows = kRunSequences;
  return options;
}

inline std::unique_ptr<vulkan::VulkanExecutor> vulkan_executor(
    const RunModel& m, kernels::DType kv_type = kernels::DType::f16,
    vulkan::WeightsIn weights = vulkan::WeightsIn::automatic) {
  return with_kv(vulkan::make_vulkan_executor(*m.file, vulkan_options(weights)), *m.file, kv_type);
}

// The contract of rows computed beside others, or in other chunks: on a processor bit for bit. A GPU may
// choose a kernel by the number of rows, and its sums then run in another order.
inline void expect_same_row(const vulkan::VulkanExecutor& device, const std::vector<float>& got,
                            const std::vector<float>& expected) {
  if (device.facts().processor) {
    EXPECT_EQ(got, expected);
    return;
  }
  EXPECT_LT(relative_error(got, expected), 2e-3);
  EXPECT_EQ(std::ranges::max_element(got) - got.begin(),
            std::ranges::max_element(expected) - expected.begin());
}

// The bounds are for what the CPU engine rounds on purpose: activations to int8 beside quantized weights.
// Here they stay f32, but for products by integer dot.
inline void expect_the_cpu_engines_logits(device::Executor& device, device::Executor& expected,
                                          const RunModel& m, double bound) {
  const auto tokens = random_tokens(37, std::min(m.vocab(), 300U));
  const std::vector<std::uint32_t> blocks{5, 3, 60};
  const auto want = run_step(expected, {{tokens, 0, blocks, true}}, m.vocab());
  const auto got = run_step(device, {{tokens, 0, blocks, true}}, m.vocab());
  ASSERT_EQ(got.size(), 1U);
  EXPECT_LT(relative_error(got[0], want[0]), bound);
}

}  // namespace flyball::test
