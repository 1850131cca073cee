// The Vulkan engine's device: opens it, brings the weights to it, and runs the decoder's steps as command
// buffers, each recorded once per shape of step and replayed. The twin of backends/cpu/cpu_device.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/device/executor.hpp"
#include "backends/model/model_file.hpp"
#include "backends/vulkan/facts.hpp"
#include "backends/vulkan/options.hpp"

namespace flyball::vulkan {

// What a Vulkan engine did so far that its Executor interface does not say.
struct VulkanStatistics {
  WeightsIn weights_in = WeightsIn::automatic;
  std::uint32_t pipelines = 0;
  std::uint64_t recorded = 0, replayed = 0;  // steps
  std::uint64_t result_bytes = 0;            // copied on the host after steps
};

struct VulkanExecutor : device::Executor {
  virtual const DeviceFacts& facts() const noexcept = 0;
  virtual VulkanStatistics statistics() const noexcept = 0;
  virtual std::uint64_t free_bytes() const noexcept = 0;  // on the device
};

// model_unavailable (no device), model_unsupported (a format without kernels, a kernel that this device never
// builds), insufficient_memory, unsupported_value (head size, experts, weights), device_lost. The model must
// outlive the executor.
Result<std::unique_ptr<VulkanExecutor>> make_vulkan_executor(const model::ModelFile& model,
                                                             const VulkanDeviceOptions& options);

}  // namespace flyball::vulkan
