// A Vulkan device for tests: whatever there is, software devices included. Where the validation layer is
// installed, it watches, and what it says fails the test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "backends/vulkan/device.hpp"
#include "backends/vulkan/vulkan_device.hpp"
#include "tests/engine/executor_runs.hpp"

namespace flyball::test {

inline vulkan::DeviceOptions any_vulkan_device() {
  vulkan::DeviceOptions options;
  options.allow_processor = true;
  options.validate = true;
  options.on_validation = [](const std::string& what) { ADD_FAILURE() << what; };
  return options;
}

// Pipelines of all tests: most tests want steps, not compiling.
inline std::filesystem::path shared_pipelines() {
  return FLYBALL_BINARY_DIR "/vulkan-tests/pipelines";
}

inline bool has_vulkan_device() {
  static const bool has = vulkan::Device::open(any_vulkan_device()).has_value();
  return has;
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

}  // namespace flyball::test
