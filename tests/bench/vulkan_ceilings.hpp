// What a Vulkan device can do at best, by plain kernels (kernels/vulkan/{read_bandwidth,multiply_add}.comp):
// the ceilings that the engine's rates are set against.
#pragma once

#include <memory>

#include "backends/vulkan/device.hpp"

namespace flyball::bench {

class VulkanCeilings {
 public:
  // model_unavailable, model_unsupported, insufficient_memory, device_lost.
  static Result<std::unique_ptr<VulkanCeilings>> open(const vulkan::DeviceOptions& options);
  // One pass of some ten milliseconds each: bytes, and f32 operations (a multiply-add is two), a second.
  Result<double> read();
  Result<double> multiply_add();

 private:
  explicit VulkanCeilings(std::shared_ptr<vulkan::Device> device) : device_(std::move(device)) {}
  Result<void> build();
  Result<double> run(const vulkan::Commands& commands, double work);

  std::shared_ptr<vulkan::Device> device_;
  vulkan::Memory from_, sums_;
  vulkan::Commands read_, multiply_add_;
  double operations_ = 0;  // of a pass
};

}  // namespace flyball::bench
