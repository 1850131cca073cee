// What a Vulkan device can do at best, by plain kernels (kernels/vulkan/{read_bandwidth,multiply_add}.comp):
// the ceilings that benchmarks set the engine's rates against, and that predictions of it go by.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/vulkan/device.hpp"

namespace flyball::vulkan {

class DeviceCeilings {
 public:
  // model_unavailable, model_unsupported, insufficient_memory, device_lost.
  // read_bytes: of the device's memory, to be read; several times its caches.
  static Result<std::unique_ptr<DeviceCeilings>> open(const DeviceOptions& options,
                                                      std::uint64_t read_bytes = 512ULL << 20);
  // One pass each: bytes, and f32 operations (a multiply-add is two), a second. On a processor tens of
  // milliseconds, as launches of prompts take: in shorter ones waking its threads would count for too much.
  Result<double> read();
  Result<double> multiply_add();

 private:
  explicit DeviceCeilings(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Result<void> build(std::uint64_t read_bytes);
  Result<double> run(const Commands& commands, double work);

  std::shared_ptr<Device> device_;
  Memory from_, sums_;
  Commands read_, multiply_add_;
  double operations_ = 0;  // of a pass
};

}  // namespace flyball::vulkan
