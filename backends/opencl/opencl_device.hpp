// The OpenCL engine's device: opens it, brings the weights to it, builds or loads its kernels, and runs the
// decoder's ops as kernels on its queue. The twin of backends/cpu/cpu_device.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/engine/executor.hpp"
#include "backends/model/model_file.hpp"
#include "backends/opencl/device.hpp"
#include "backends/opencl/options.hpp"

namespace flyball::opencl {

// What an OpenCL engine did so far that its Executor interface does not say.
struct OpenClStatistics {
  std::uint32_t programs_compiled = 0, programs_from_cache = 0;
  bool weights_in_place = false;
  std::uint64_t result_bytes = 0;  // read from the device after steps
  std::uint32_t products_planned = 0, products_tuned = 0;  // the latter by what `flyball tune` found
};

struct OpenClExecutor : engine::Executor {
  virtual const DeviceFacts& facts() const noexcept = 0;
  virtual OpenClStatistics statistics() const noexcept = 0;
  virtual std::uint64_t free_bytes() const noexcept = 0;  // on the device
};

// model_unavailable (no device), model_unsupported (a kernel that it never builds), insufficient_memory, unsupported_value,
// device_lost. The model must outlive the executor.
Result<std::unique_ptr<OpenClExecutor>> make_opencl_executor(const model::ModelFile& model,
                                                             const OpenClDeviceOptions& options);

}  // namespace flyball::opencl
