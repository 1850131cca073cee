// What an OpenCL device can do at best, by plain kernels (kernels/opencl/{read_bandwidth,multiply_add}.cl):
// the ceilings that benchmarks set the engine's rates against, and that predictions of it go by.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/opencl/device.hpp"
#include "backends/opencl/programs.hpp"

namespace flyball::opencl {

class DeviceCeilings {
 public:
  // model_unavailable, insufficient_memory, device_lost.
  // read_bytes: of the device's memory, to be read; several times its caches.
  static Result<std::unique_ptr<DeviceCeilings>> open(const DeviceOptions& options,
                                                      std::uint64_t read_bytes = 512ULL << 20);
  // One pass of some ten milliseconds each: bytes, and f32 operations (a multiply-add is two), a second.
  Result<double> read();
  Result<double> multiply_add();

 private:
  explicit DeviceCeilings(std::shared_ptr<Device> device)
      : device_(std::move(device)), programs_(device_, "") {}
  Result<void> build(std::uint64_t read_bytes);

  std::shared_ptr<Device> device_;
  Programs programs_;
  Kernel read_kernel_, multiply_add_kernel_;
  Grid read_grid_, multiply_add_grid_;
  std::uint32_t read_words_ = 0;  // vectors in all
  std::uint32_t floats_ = 1;      // of a work-item's vector
  Memory read_from_, factors_, sums_;
};

}  // namespace flyball::opencl
