// What an OpenCL device can do at best, by plain kernels (kernels/opencl/{read_bandwidth,multiply_add}.cl):
// the ceilings that the engine's rates are set against.
#pragma once

#include <memory>

#include "backends/opencl/device.hpp"
#include "backends/opencl/programs.hpp"

namespace flyball::bench {

class OpenClCeilings {
 public:
  // model_unavailable, insufficient_memory, device_lost.
  static Result<std::unique_ptr<OpenClCeilings>> open(const opencl::DeviceOptions& options);
  // One pass of some ten milliseconds each: bytes, and f32 operations (a multiply-add is two), a second.
  Result<double> read();
  Result<double> multiply_add();

 private:
  explicit OpenClCeilings(std::shared_ptr<opencl::Device> device)
      : device_(std::move(device)), programs_(device_, "") {}
  Result<void> build();

  std::shared_ptr<opencl::Device> device_;
  opencl::Programs programs_;
  opencl::Kernel read_kernel_, multiply_add_kernel_;
  opencl::Grid read_grid_, multiply_add_grid_;
  std::uint32_t read_words_ = 0;  // vectors in all
  std::uint32_t floats_ = 1;      // of a work-item's vector
  opencl::Memory read_from_, factors_, sums_;
};

}  // namespace flyball::bench
